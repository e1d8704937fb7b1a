"""Ranks that a task watches for a launcher elsewhere; here both are on one host, and the ranks import no
torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from suite.launchers import root_cause
from suite.launchers.base import Progress
from suite.record import LaunchRecord
from suite.spec import RunSpec
from tests.helpers.leftovers import MARK, marked, none_within
from tests.helpers.light_tasks import BEHAVIOUR, LightTasks
from tests.helpers.toy_run import toy_run


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mark on every process that the test starts; none may be left."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield mark
    assert not marked(mark)


Launched = Callable[..., LaunchRecord]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, mark: str, tmp_path: Path) -> Launched:
    """``launched("wait", "fail_later", act=...)``; ``act`` is given the watchers when both ranks train."""

    def launch(
        *behaviours: str,
        act: Callable[[list[subprocess.Popen[bytes]]], None] = lambda _: None,
        run: RunSpec | None = None,
    ) -> LaunchRecord:
        for rank, behaviour in enumerate(behaviours):
            monkeypatch.setenv(f"{BEHAVIOUR}{rank}", behaviour)
        launcher = LightTasks()

        def on_progress(progress: Progress) -> None:
            if progress.phase == "train" and progress.step == 1:
                act(launcher.watchers)

        return launcher.launch(run or toy_run(), 0, tmp_path, on_progress)

    return launch


def test_a_rank_that_raises_is_named_with_its_host(launched: Launched, tmp_path: Path) -> None:
    error = launched("wait", "fail_later").error
    assert error is not None
    assert (error.kind, error.rank, error.log) == ("rank_raised", 1, "logs/launch0/rank1.log")
    assert "ValueError: late" in error.message
    assert os.uname().nodename in error.message
    assert (tmp_path / "logs/launch0/rank1.log").is_file()
    assert not (tmp_path / "launch0").exists()


def test_an_error_longer_than_a_chunk_arrives_whole(launched: Launched) -> None:
    error = launched("wait", "long_error").error
    assert error is not None
    assert (error.kind, error.rank) == ("rank_raised", 1)
    assert len(error.message) > 300_000


def test_exit_code_0_without_output(launched: Launched) -> None:
    error = launched("wait", "exit_quietly").error
    assert error is not None
    assert (error.kind, error.rank) == ("rank_exited", 1)


def test_a_rank_that_is_stopped(launched: Launched) -> None:
    error = launched("wait", "stop").error
    assert error is not None
    assert (error.kind, error.rank) == ("rank_stalled", 1)
    assert f"Rank 1 on {os.uname().nodename} is stopped" in error.message


def test_a_rank_that_never_comes_back(launched: Launched, tmp_path: Path) -> None:
    error = launched("lose_connection_first_then_wait", "wait").error
    assert error is not None
    assert (error.kind, error.rank) == ("rank_stalled", 1)
    assert "light_rank.py" in (tmp_path / "logs/launch0/rank1.log").read_text(), "its stack is in its log"


def test_what_a_rank_started_is_ended_too(launched: Launched) -> None:
    error = launched("have_a_child", "fail_later").error  # the mark's fixture looks for what is left
    assert error is not None
    assert error.rank == 1


def test_a_watcher_that_is_gone(launched: Launched) -> None:
    begin = time.monotonic()
    error = launched("wait", "wait", act=lambda watchers: watchers[1].kill()).error
    assert error is not None
    assert (error.kind, error.rank) == ("host_lost", 1)
    assert "connection" in error.message
    assert time.monotonic() - begin < 10


def test_a_host_that_is_silent(launched: Launched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root_cause, "LOST_S", 1.5)
    error = launched("wait", "wait", act=lambda watchers: watchers[1].send_signal(signal.SIGSTOP)).error
    assert error is not None
    assert (error.kind, error.rank) == ("host_lost", 1)
    assert "nothing has been heard" in error.message
    assert os.uname().nodename in error.message


def test_told_to_end_from_outside(launched: Launched) -> None:
    def cancel(watchers: list[subprocess.Popen[bytes]]) -> None:
        for watcher in watchers:
            watcher.terminate()

    error = launched("wait", "wait", act=cancel).error
    assert error is not None
    assert error.kind == "cancelled"
    assert "SIGTERM" in error.message


def test_a_task_that_never_calls(launched: Launched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LightTasks, "absent", (1,))
    error = launched("wait", "wait").error
    assert error is not None
    assert (error.kind, error.rank) == ("launch_failed", 1)
    assert "Rank 1 did not start: it was left out" in error.message


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to have another file system")
def test_a_host_that_does_not_share_the_folder(
    launched: Launched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    monkeypatch.setattr(LightTasks, "blind", (1,))
    begin = time.monotonic()
    error = launched("wait", "wait").error
    assert error is not None
    assert (error.kind, error.field, error.rank) == ("environment", "runs", 1)
    assert f"does not see {tmp_path}" in error.message
    assert time.monotonic() - begin < 15


def test_hosts_that_are_not_those_of_the_layout(launched: Launched) -> None:
    layout = {"world_size": 2, "ranks_per_host": 1}
    error = launched("wait", "wait", run=toy_run(layout=layout)).error
    assert error is not None
    assert (error.kind, error.field, error.value) == ("bad_input", "layout.ranks_per_host", 1)


def test_nothing_is_left_of_a_launcher_that_is_killed(
    monkeypatch: pytest.MonkeyPatch, mark: str, tmp_path: Path
) -> None:
    for rank in (0, 1):
        monkeypatch.setenv(f"{BEHAVIOUR}{rank}", "wait")
    command = [sys.executable, "-m", "tests.helpers.light_tasks", "launch", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert any(line.startswith("train") for line in process.stdout), "it ended before"
    assert len(marked(mark)) == 5, "the launcher, two watchers and two ranks"
    process.kill()
    process.wait()
    process.stdout.close()
    assert none_within(mark, 5.0)
