"""Real ranks that fail in real collectives: who is named, after how long, and what is left.

The deadlines are those of docs/faults.md, measured from the fault.
"""

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

from suite.launchers.local import LocalLauncher
from suite.record import LaunchRecord
from suite.session import run_one
from tests.helpers.leftovers import MARK, marked, none_within
from tests.helpers.toy_implementation import FAULT, FAULT_TIME
from tests.helpers.toy_run import toy_run

STALL_TIMEOUT_S = 6.0
#: docs/faults.md: a rank that fails or ends; a rank that is stopped; a rank that never comes back.
ENDED_S, STOPPED_S, STALLED_S = 3.0, 6.0, STALL_TIMEOUT_S + 6.0


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mark on every process that the test starts; none may be left."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield mark
    assert not marked(mark)


SLOW = pytest.mark.slow
#: Faults that nothing but the stall timeout ends.
STALLING = ("sleep", "barrier_alone")

Faulty = Callable[[str], tuple[LaunchRecord, float]]


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch, mark: str, tmp_path: Path) -> Faulty:
    """``faulty("exit:1:3")`` launches the toy with this fault; the record, and seconds since the fault."""
    committed_at = tmp_path / "committed_at"

    def launch(fault: str) -> tuple[LaunchRecord, float]:
        monkeypatch.setenv(FAULT, fault)
        monkeypatch.setenv(FAULT_TIME, str(committed_at))
        # Short only where it is what is tested: on a busy machine starting has long gaps too.
        run = toy_run(stall_timeout_s=STALL_TIMEOUT_S if fault.startswith(STALLING) else 60)
        record = LocalLauncher().launch(run, 0, tmp_path, lambda _: None)
        return record, time.monotonic() - float(committed_at.read_text())

    return launch


@pytest.mark.parametrize(
    ("fault", "kind", "rank", "words", "deadline_s"),
    [
        # Rank 0 raises before a collective in which the other waits for it (torchrec PR 4287).
        (
            "raise:0:3",
            "rank_raised",
            0,
            ["ValueError: this rank was told to raise", "in step 3 of 6"],
            ENDED_S,
        ),
        ("exit:1:3", "rank_exited", 1, ["code 7"], ENDED_S),
        ("sys_exit:1:3", "rank_raised", 1, ["SystemExit: 0", "in step 3 of 6"], ENDED_S),
        ("kill_in_all_to_all:1:3", "rank_killed", 1, ["SIGKILL", "possibly"], ENDED_S),
        ("stop:1:3", "rank_stalled", 1, ["is stopped"], STOPPED_S),
        ("sleep:1:3", "rank_stalled", 1, ["in step 3 of 6", "toy_implementation.py"], STALLED_S),
        ("config:1:3", "bad_input", 1, ["its tables are not right"], ENDED_S),
        ("memory_limit:1:3", "out_of_memory", 1, ["ran out of memory in step 3 of 6", "allocate"], ENDED_S),
        # What a rank has started in a session of its own ends too: the fixture looks for it.
        pytest.param(
            "leave_a_session:1:3", "rank_raised", 1, ["told to raise"], ENDED_S + 1, marks=pytest.mark.slow
        ),
        # Before training.
        ("kill:1:-1", "rank_killed", 1, ["SIGKILL", "while building"], ENDED_S),
        pytest.param(
            "stop:0:-1",
            "rank_stalled",
            0,
            ["is stopped", "while building"],
            STOPPED_S,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_fault(
    faulty: Faulty, tmp_path: Path, fault: str, kind: str, rank: int, words: list[str], deadline_s: float
) -> None:
    record, seconds = faulty(fault)
    error = record.error
    assert error is not None
    assert (record.status, error.kind, error.rank) == ("failed", kind, rank)
    for word in words:
        assert word in error.message
    assert error.log == f"logs/launch0/rank{rank}.log"
    assert (tmp_path / error.log).is_file()
    if kind == "rank_raised":
        assert "Traceback" in (tmp_path / error.log).read_text()
    if kind == "bad_input":
        assert (error.field, error.value, error.remedy) == ("model.factory", "mine:build", "Repair them.")
    assert seconds < deadline_s
    assert not (tmp_path / "launch0").exists()


@pytest.mark.slow
def test_a_collective_that_one_rank_enters_alone(faulty: Faulty) -> None:
    """All ranks wait in the same step, so that none is to blame; the one whose time is up first is named."""
    record, seconds = faulty("barrier_alone:0:3")
    assert record.error is not None
    assert record.error.kind in ("rank_raised", "rank_stalled")
    assert "in step 3 of 6" in record.error.message
    assert seconds < STALLED_S


@pytest.mark.slow
def test_a_launch_that_finished_before_stays(
    monkeypatch: pytest.MonkeyPatch, mark: str, tmp_path: Path
) -> None:
    monkeypatch.setenv(FAULT, "raise:1:3:1")  # in launch 1
    record, path = run_one(toy_run(launches=3), tmp_path, LocalLauncher(), lambda _: None)
    assert record.status == "partial"
    assert [launch.status for launch in record.launches] == ["complete", "failed"]
    assert [len(r.step_ms) for r in record.launches[0].ranks] == [4, 4]
    assert record.error is not None
    assert (record.error.rank, record.error.log) == (1, "logs/launch1/rank1.log")
    assert (path / "logs/launch1/rank1.log").is_file()


Parent = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch, mark: str, tmp_path: Path) -> Iterator[Parent]:
    """A parent process of its own session, as under a terminal; its ranks sleep from step 3 on."""
    monkeypatch.setenv(FAULT, "sleep:1:3")
    started: list[subprocess.Popen[str]] = []

    def start(until: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.toy_run", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert any(line.startswith(until) for line in process.stdout), "it ended before"
        assert len(marked(mark)) == 3, "the parent and two ranks"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_ctrl_c(parent: Parent, mark: str) -> None:
    process = parent("train")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.wait(ENDED_S) == -signal.SIGINT, "it ended by KeyboardInterrupt"
    assert not marked(mark)


@pytest.mark.parametrize("phase", ["start", "train"])
def test_kill_9_of_the_parent(parent: Parent, mark: str, phase: str) -> None:
    process = parent(phase)
    process.kill()
    assert none_within(mark, ENDED_S)
