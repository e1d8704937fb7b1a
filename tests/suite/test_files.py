from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from suite.files import write_whole


def test_a_file_is_replaced_and_what_is_no_file_is_not(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", "one")
    write_whole(tmp_path / "file", "two")
    assert (tmp_path / "file").read_text() == "two"
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(OSError, match="no file that can be replaced"):
        write_whole(pipe, "three")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "pipe"]
