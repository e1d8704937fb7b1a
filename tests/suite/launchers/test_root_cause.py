"""The naming rules, one evidence after the other."""

from __future__ import annotations

from typing import Any

from suite.errors import ErrorReport
from suite.launchers.deadlines import GONE_S, LOST_S
from suite.launchers.messages import Failure
from suite.launchers.rank_process import RankStatus, Watch
from suite.launchers.root_cause import root_cause

NOW = 100.0
GLOO = "/torch/distributed/distributed_c10d.py:5140 in all_to_all_single"


def rank(number: int, **known: Any) -> RankStatus:
    """A rank in step 5 of 9, heard just now, waiting in a collective."""
    status = RankStatus(number, f"logs/launch0/rank{number}.log", heard_at=NOW, advanced_at=NOW - 50)
    status.phase, status.step, status.steps, status.frame = "train", 5, 9, GLOO
    status.state = "S"
    for name, value in known.items():
        setattr(status, name, value)
    return status


def raised(number: int, at: float, communication: bool = False, kind: str = "rank_raised") -> RankStatus:
    report = ErrorReport(kind=kind, rank=number, message=f"rank {number} failed")
    return rank(number, failure=Failure(report=report, communication=communication), failed_at=at)


def ended(number: int, code: int, at: float, **known: Any) -> RankStatus:
    return rank(number, exit_code=code, exited_at=at, **known)


def named(*ranks: RankStatus) -> tuple[str, int | None]:
    error = root_cause(ranks, NOW)
    return error.kind, error.rank


def test_the_earliest_of_those_that_fell_by_themselves() -> None:
    assert named(raised(0, 12.0), ended(1, 7, 11.0), ended(2, -9, 13.0)) == ("rank_exited", 1)


def test_own_error_before_an_earlier_lost_connection() -> None:
    assert named(raised(0, 10.0, communication=True), raised(1, 12.0)) == ("rank_raised", 1)


def test_death_before_an_earlier_lost_connection() -> None:
    error = root_cause([raised(0, 10.0, communication=True), ended(1, -9, 12.0)], NOW)
    assert (error.kind, error.rank, error.log) == ("rank_killed", 1, "logs/launch0/rank1.log")
    assert "SIGKILL" in error.message
    assert "out of memory" in error.message


def test_where_collectives_failed_on_all_the_one_that_got_less_far() -> None:
    """Each was in a collective of its own; torchmetrics issue 2758."""
    behind, ahead = raised(0, 12.0, communication=True), raised(1, 11.0, communication=True)
    ahead.step = behind.step + 1
    assert named(behind, ahead) == ("rank_raised", 0)
    ahead.step = behind.step
    assert named(behind, ahead) == ("rank_raised", 1)


def test_only_a_bare_sigkill_is_possibly_out_of_memory() -> None:
    error = root_cause([ended(0, -11, 12.0)], NOW)
    assert "SIGSEGV" in error.message
    assert "memory" not in error.message


def test_exit_code_0_before_the_end_is_a_fault() -> None:
    assert named(rank(0), ended(1, 0, 12.0)) == ("rank_exited", 1)


def test_exit_after_the_output_is_written_is_none() -> None:
    assert named(ended(0, 0, 12.0, finished_at=11.9), rank(1)) == ("rank_stalled", 1)


def test_a_stopped_rank_before_those_that_lost_it() -> None:
    error = root_cause([raised(0, 90.0, communication=True), rank(1, state="T", heard_at=NOW - 4)], NOW)
    assert (error.kind, error.rank) == ("rank_stalled", 1)
    assert "stopped" in error.message


def test_a_rank_stopped_for_a_moment_is_not_blamed_for_it() -> None:
    assert named(rank(0, step=4), rank(1, state="T", heard_at=NOW - 1)) == ("rank_stalled", 0)


def test_the_silent_rank_when_the_others_timed_out_in_collectives() -> None:
    late = [raised(r, 98.0, communication=True) for r in (0, 1, 3)]
    assert named(late[0], late[1], rank(2), late[2]) == ("rank_stalled", 2)


def test_the_earliest_when_all_lost_a_connection() -> None:
    both = raised(0, 98.2, communication=True), raised(1, 98.1, communication=True)
    assert named(*both) == ("rank_raised", 1)


def test_nccl_watchdog_abort_is_suffering_not_cause() -> None:
    aborted = [ended(0, -6, 97.0, nccl=True), ended(1, -6, 97.1, nccl=True)]
    assert named(*aborted, rank(2, nccl=True)) == ("rank_stalled", 2)


def test_an_abort_on_cpu_before_an_earlier_lost_connection() -> None:
    assert named(ended(0, -6, 97.1), raised(1, 97.0, communication=True)) == ("rank_killed", 0)


def test_a_signal_without_a_name_goes_by_its_number() -> None:
    assert "killed by signal 40," in root_cause([ended(0, -40, 12.0)], NOW).message


def test_the_rank_that_is_behind() -> None:
    assert named(rank(0, step=6), rank(1), rank(2, step=6)) == ("rank_stalled", 1)
    assert named(rank(0), rank(1, phase="build", step=0)) == ("rank_stalled", 1)


def test_in_the_same_step_the_one_outside_torch() -> None:
    error = root_cause([rank(0), rank(1, frame="/home/me/model.py:8 in forward"), rank(2)], NOW)
    assert (error.kind, error.rank) == ("rank_stalled", 1)
    assert "step 5 of 9" in error.message
    assert "/home/me/model.py:8 in forward" in error.message


def test_nobody_where_nothing_shows() -> None:
    error = root_cause([rank(0), rank(1)], NOW)
    assert (error.kind, error.rank, error.log) == ("rank_stalled", None, "logs/launch0")


def test_a_rank_without_heartbeat_says_its_state() -> None:
    error = root_cause([rank(0, step=6), rank(1, state="D", heard_at=NOW - 30)], NOW)
    assert (error.kind, error.rank) == ("rank_stalled", 1)
    assert "30 s" in error.message
    assert "state D" in error.message


def test_what_a_rank_knows_of_its_error_is_kept() -> None:
    report = ErrorReport(
        kind="bad_input", rank=0, field="model.factory", value="a:b", message="wrong tables", remedy="repair"
    )
    status = rank(0, failure=Failure(report=report, communication=False), failed_at=90.0)
    assert root_cause([status, rank(1)], NOW) == report.model_copy(update={"log": "logs/launch0/rank0.log"})


def watched(number: int, host: str, **known: Any) -> RankStatus:
    """A rank on another host, whose watcher was heard half a second ago."""
    watch = Watch(heard_at=NOW - 0.5)
    for name in ("heard_at", "gone_at", "told_to_end"):
        if name in known:
            setattr(watch, name, known.pop(name))
    return rank(number, host=host, watch=watch, **known)


def test_a_host_that_is_silent_is_named_with_its_ranks() -> None:
    silent = [watched(2, "h2", heard_at=NOW - LOST_S + 0.5), watched(3, "h2", heard_at=NOW - LOST_S - 0.5)]
    error = root_cause([watched(0, "h1"), watched(1, "h1"), *silent], NOW)
    assert (error.kind, error.rank) == ("host_lost", 2)
    assert "Host h2 was lost with ranks 2, 3" in error.message


def test_a_watcher_that_is_gone_comes_before_a_lost_connection() -> None:
    gone = watched(1, "h2", gone_at=NOW - GONE_S - 0.1)
    assert named(raised(0, 10.0, communication=True), gone) == ("host_lost", 1)


def test_that_everything_was_told_to_end_comes_before_what_it_did_to_the_ranks() -> None:
    told = watched(0, "h1", told_to_end=True, exit_code=-15, exited_at=12.0)
    assert named(ended(1, -15, 11.0), told) == ("cancelled", 0)


def test_the_host_is_in_the_message() -> None:
    error = root_cause([watched(0, "h1", exit_code=-9, exited_at=12.0)], NOW)
    assert "Rank 0 on h1 was killed by SIGKILL" in error.message
