"""``run --checkpoint`` and ``--start-from`` on real ranks, into another layout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from suite import store


def run(folder: Path, *options: str) -> Any:
    command = [
        *(
            sys.executable,
            "-m",
            "suite.cli.main",
            "run",
            "smoke",
            "--warmup-steps",
            "2",
            "--optimizer",
            "sgd",
        ),
        *("--learning-rate", "0.5", "--dense-optimizer", "sgd", "--runs", str(folder / "runs"), "--json"),
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return store.read(Path(json.loads(done.stdout)["record"])).launches[0]


def losses(launch: Any) -> list[float]:
    """Of the global batch: the mean over the ranks."""
    return [sum(step) / len(step) for step in zip(*(rank.loss for rank in launch.ranks), strict=True)]


@pytest.mark.slow
def test_the_curve_is_unbroken_from_one_rank_into_two_groups(tmp_path: Path) -> None:
    """With SGD 2D is 1D, so that all layouts train alike: 16 steps are 8 and 8, on the same samples."""
    whole = run(tmp_path, "--steps", "16")
    first = run(tmp_path, "--steps", "8", "--checkpoint", str(tmp_path / "kept"))
    start = ("--start-from", str(tmp_path / "kept/step00000008"))
    second = run(tmp_path, "--steps", "8", *start, "--world-size", "2", "--replica-groups", "2")
    # float32: as in the oracle tests.
    assert losses(first) + losses(second) == pytest.approx(losses(whole), rel=1e-5)
    assert whole.quality is not None
    assert second.quality is not None
    assert second.quality.log_loss == pytest.approx(whole.quality.log_loss, rel=1e-5)
    assert losses(second) != pytest.approx(losses(first), rel=1e-5), "other samples"
