from __future__ import annotations

import errno
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from suite import environment
from suite.launchers.base import Progress
from suite.launchers.local import LocalLauncher
from suite.record import LaunchRecord
from tests.helpers.toy_run import toy_run


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> tuple[LaunchRecord, list[Progress], Path]:
    """One launch of the toy on two ranks."""
    folder = tmp_path_factory.mktemp("run")
    told: list[Progress] = []
    return LocalLauncher().launch(toy_run(), 3, folder, told.append), told, folder


def test_the_record_is_whole(launched: tuple[LaunchRecord, list[Progress], Path]) -> None:
    record, _, _ = launched
    assert (record.index, record.status, record.error) == (3, "complete", None)
    assert [r.rank for r in record.ranks] == [0, 1]
    for rank in record.ranks:
        assert (len(rank.loss), len(rank.warmup_step_ms), len(rank.step_ms)) == (6, 2, 4)
        assert [c.step for c in rank.collectives] == [0, 1]
        assert rank.device == "cpu"
        assert rank.memory.dense_parameters == 4
    assert record.duration_s > sum(record.ranks[0].step_ms) / 1e3


def test_the_ranks_losses_average_to_the_global_loss(
    launched: tuple[LaunchRecord, list[Progress], Path],
) -> None:
    # Before the first step the toy's logit is 0, so that the mean loss of any batch is ln 2, although the
    # ranks hold 4 and 5 of the 9 samples. Tolerance: float32.
    first = [rank.loss[0] for rank in launched[0].ranks]
    assert sum(first) / 2 == pytest.approx(math.log(2), rel=1e-6)
    assert first[0] != pytest.approx(first[1], rel=0.1)


def test_quality_is_of_the_whole_split(launched: tuple[LaunchRecord, list[Progress], Path]) -> None:
    quality = launched[0].quality
    assert quality is not None
    assert (quality.split, quality.samples) == ("the toy's own", 25)
    assert quality.auc == 1.0, "the label is the sign of the only dense feature"
    assert launched[0].data == {"fingerprint": "toy", "split": "the toy's own"}


def test_progress_goes_through_the_phases(launched: tuple[LaunchRecord, list[Progress], Path]) -> None:
    _, told, _ = launched
    assert told[0] == Progress(3, "start", 0, 0)
    phases = [p.phase for p in told]
    assert phases == sorted(phases, key=["start", "build", "train", "evaluate"].index)
    assert "train" in phases


@pytest.mark.slow
def test_all_profiled_steps_are_one_count(tmp_path: Path) -> None:
    # The passes follow each other: a rank in the second is further than one in the first.
    told: list[Progress] = []
    run = toy_run(profile_steps=2)
    assert LocalLauncher().launch(run, 0, tmp_path, told.append).status == "complete"
    profiled = [(p.step, p.steps) for p in told if p.phase == "profile"]
    assert profiled == sorted(profiled)
    assert len({steps for _, steps in profiled}) == 1
    assert profiled[-1][0] == profiled[-1][1] > run.profile_steps


def test_only_logs_are_left_in_the_folder(launched: tuple[LaunchRecord, list[Progress], Path]) -> None:
    folder = launched[2]
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert files == ["logs/launch3/rank0.log", "logs/launch3/rank1.log"]


def test_ranks_that_cannot_be_started_are_a_failed_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "no python here"))
    record = LocalLauncher().launch(toy_run(), 0, tmp_path, lambda _: None)
    assert record.error is not None
    assert (record.status, record.error.kind, record.error.rank) == ("failed", "launch_failed", 0)


def test_durations_do_not_follow_the_wall_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = iter(range(23, 0, -1))

    class Jumping(environment.datetime):  # type: ignore[name-defined, misc]
        @classmethod
        def now(cls, tz: object = None) -> object:
            return cls(2026, 1, 1, next(hours))

    monkeypatch.setattr(environment, "datetime", Jumping)
    monkeypatch.setattr("time.time", lambda: 3600.0 * next(hours))
    monkeypatch.setattr("sys.executable", str(tmp_path / "no python here"))
    record = LocalLauncher().launch(toy_run(), 0, tmp_path, lambda _: None)
    assert 0 <= record.duration_s < 60


def test_a_full_disk_is_a_failed_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    record = LocalLauncher().launch(toy_run(), 0, tmp_path, lambda _: None)
    assert record.error is not None
    assert (record.status, record.error.kind, record.error.field) == ("failed", "cannot_save", "runs")
    assert "No space left" in record.error.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_folder_that_is_removed_during_the_launch_is_a_failed_launch(tmp_path: Path) -> None:
    def remove(progress: Progress) -> None:
        # Any phase but the first: a parent that is busy may never hear of one as short as "build". Again
        # and again: a folder into which a rank writes while it is emptied is not removed.
        if progress.phase != "start":
            shutil.rmtree(tmp_path, ignore_errors=True)

    record = LocalLauncher().launch(toy_run(steps=500), 0, tmp_path, remove)
    assert record.error is not None
    assert (record.status, record.error.kind) == ("failed", "rank_raised")


@pytest.mark.slow
def test_a_parent_without_standard_streams(tmp_path: Path) -> None:
    parent = [sys.executable, "-m", "tests.helpers.toy_run", str(tmp_path)]
    closed = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", *parent]
    told = subprocess.run(closed, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "train 6" in told or "evaluate" in told, (tmp_path / "logs/launch0/rank0.log").read_text()
