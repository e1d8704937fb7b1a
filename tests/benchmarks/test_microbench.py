"""`make microbench` without its clock: each of the small pieces still does what is timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.slow
def test_the_small_pieces_run(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "benchmarks/micro",
        "--benchmark-disable",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
