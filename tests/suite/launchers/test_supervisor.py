"""Supervision, with ranks that import no torch."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from suite.errors import ErrorReport
from suite.launchers.base import Progress
from suite.launchers.deadlines import SETTLE_S, STACK_S, STALL_MARGIN_S, TERMINATE_S
from suite.launchers.rank_process import RankProcess, RankStatus
from suite.launchers.supervisor import end, supervise
from tests.helpers.leftovers import MARK, marked
from tests.helpers.light_rank import GROUP

#: For the ranks to start and, once ended, to go; on an idle machine 0.5 s.
SOON_S = 4.0

Supervised = Callable[..., ErrorReport | None]


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def supervised(tmp_path: Path, mark: str) -> Iterator[Supervised]:
    """``supervised("wait", "fail_later", ...)`` runs a rank for each behaviour; none may be left."""

    def run(
        *behaviours: str,
        on_progress: Callable[[Progress], None] = lambda _: None,
        stall_timeout_s: float = 30,
    ) -> ErrorReport | None:
        ranks: list[RankProcess] = []
        try:
            for rank, behaviour in enumerate(behaviours):
                now = time.monotonic()
                ranks.append(
                    RankProcess(
                        RankStatus(rank, f"rank{rank}.log", heard_at=now, advanced_at=now),
                        tmp_path / f"rank{rank}.log",
                        ["tests.helpers.light_rank", behaviour],
                        {**os.environ, "RANK": str(rank), MARK: mark},
                    )
                )
            return supervise(ranks, 0, stall_timeout_s, on_progress)
        finally:
            end(ranks)

    yield run
    assert not marked(mark)


def test_all_finish(supervised: Supervised) -> None:
    told: list[Progress] = []
    assert supervised("finish", "finish", on_progress=told.append) is None
    assert told[0] == Progress(0, "start", 0, 0)
    assert told[-1] == Progress(0, "train", 3, 3)


def test_a_lost_connection_waits_for_the_rank_that_caused_it(supervised: Supervised) -> None:
    error = supervised("lose_connection", "fail_later")
    assert error is not None
    assert (error.kind, error.rank) == ("rank_raised", 1)
    assert "ValueError: late" in error.message


def test_all_lose_their_connection(supervised: Supervised) -> None:
    error = supervised("lose_connection", "lose_connection")
    assert error is not None
    assert error.kind == "rank_raised"
    assert "Connection closed" in error.message


def test_the_rank_that_is_silent_while_another_timed_out(supervised: Supervised, tmp_path: Path) -> None:
    begin = time.monotonic()
    error = supervised("lose_connection_first_then_wait", "wait")
    assert error is not None
    assert (error.kind, error.rank) == ("rank_stalled", 1)
    assert "light_rank.py" in error.message
    assert "light_rank.py" in (tmp_path / "rank1.log").read_text(), "its stack is in its log"
    assert time.monotonic() - begin < SETTLE_S + STACK_S + TERMINATE_S + SOON_S


def test_a_stall_without_any_word(supervised: Supervised) -> None:
    begin = time.monotonic()
    error = supervised("wait", stall_timeout_s=1)
    assert error is not None
    assert (error.kind, error.rank) == ("rank_stalled", 0)
    assert time.monotonic() - begin < 1 + STALL_MARGIN_S + STACK_S + TERMINATE_S + SOON_S


def test_exit_code_0_without_output(supervised: Supervised) -> None:
    error = supervised("wait", "exit_quietly")
    assert error is not None
    assert (error.kind, error.rank) == ("rank_exited", 1)
    assert "code 0" in error.message


def test_memory_error(supervised: Supervised) -> None:
    error = supervised("wait", "memory")
    assert error is not None
    assert (error.kind, error.rank) == ("out_of_memory", 1)


def test_an_error_longer_than_a_pipe_arrives_whole(supervised: Supervised) -> None:
    error = supervised("long_error")
    assert error is not None
    assert len(error.message) > 300_000


def test_sigterm_ignored_is_sigkilled(supervised: Supervised) -> None:
    begin = time.monotonic()
    error = supervised("ignore_sigterm", "fail_later")
    assert error is not None
    assert error.rank == 1
    assert time.monotonic() - begin < TERMINATE_S + 0.5 + SOON_S


def test_what_a_rank_started_is_ended_too(supervised: Supervised) -> None:
    error = supervised("have_a_child", "fail_later")  # the fixture looks for what is left
    assert error is not None
    assert error.rank == 1


def test_an_error_of_the_progress_display_leaves_no_rank(supervised: Supervised) -> None:
    def broken(_: Progress) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        supervised("wait", "wait", on_progress=broken)


@pytest.fixture
def small_group(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A control group of 64 MB for the rank that is to exhaust it."""
    first = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    top = Path("/sys/fs/cgroup") if first else Path("/sys/fs/cgroup/memory")
    group = top / f"sparse2d-test-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        (group / ("memory.max" if first else "memory.limit_in_bytes")).write_text(str(2**26))
    except OSError as error:
        group.rmdir()
        pytest.skip(f"no memory limit can be set here: {error}")
    monkeypatch.setenv(GROUP, str(group))
    yield group
    group.rmdir()


def test_a_rank_that_its_control_group_kills(supervised: Supervised, small_group: Path) -> None:
    error = supervised("wait", "exhaust_its_group")
    assert error is not None
    assert (error.kind, error.rank) == ("rank_killed", 1)
    assert "SIGKILL, possibly out of memory: its control group reached its limit (1 killed" in error.message
