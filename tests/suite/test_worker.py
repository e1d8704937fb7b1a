from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from suite.launchers.messages import Message
from suite.launchers.variables import REPORT_FD


def test_the_error_is_told_although_the_log_is_on_a_full_disk(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with Path("/dev/full").open("w") as full, os.fdopen(reader, "rb") as told:
        worker = subprocess.run(
            [sys.executable, "-m", "suite.worker", str(tmp_path / "no job")],
            env={**os.environ, "RANK": "0", REPORT_FD: str(writer)},
            stdout=full,
            stderr=full,
            pass_fds=[writer],
        )
        os.close(writer)
        failure = Message.model_validate_json(told.readlines()[-1]).failure
    assert worker.returncode == 1
    assert failure is not None
    assert "FileNotFoundError" in failure.report.message
