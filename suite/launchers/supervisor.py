"""Watches the ranks of a launch until they are done or one of them has ended it."""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Callable, Sequence

from suite.errors import ErrorReport
from suite.launchers.base import Progress
from suite.launchers.deadlines import POLL_S, SETTLE_S, STACK_S, STALL_MARGIN_S, START_S, TERMINATE_S
from suite.launchers.rank_process import RankStatus, WatchedRank
from suite.launchers.root_cause import (
    fell_by_itself,
    fell_with_another,
    is_lost,
    is_stopped,
    root_cause,
    was_told_to_end,
)


def supervise(
    ranks: Sequence[WatchedRank],
    launch: int,
    stall_timeout_s: float,
    on_progress: Callable[[Progress], None],
) -> ErrorReport | None:
    """Waits for the end of a launch.

    Returns:
        None when every rank has finished and exited; else why the launch must be ended now. Ranks that
        are still there then are left to ``end``.
    """
    statuses = [rank.status for rank in ranks]
    told: Progress | None = None
    with selectors.DefaultSelector() as selector:
        for rank in ranks:
            selector.register(rank.reader, selectors.EVENT_READ, rank)
        while True:
            # In this order: what a rank told before it ended is read before its end is judged.
            for rank in ranks:
                rank.look()
            _listen(selector)
            slowest = min(statuses, key=lambda s: s.position)
            progress = Progress(launch, slowest.phase, slowest.step, slowest.steps)
            if progress != told:
                on_progress(progress)
                told = progress
            now = time.monotonic()
            if _must_end(statuses, now, stall_timeout_s):
                error = root_cause(statuses, now)
                if error.kind == "rank_stalled":
                    _dump_stacks(ranks)
                return error
            if all(s.exit_code is not None for s in statuses):
                return None


def end(ranks: Sequence[WatchedRank]) -> None:
    """Ends what is left of every rank and of what it started, and reaps it; harmless after a good end."""
    try:
        if _any_runs(ranks):
            for rank in ranks:
                rank.signal_group(signal.SIGTERM)
                rank.signal_group(signal.SIGCONT)  # a stopped process takes SIGTERM only when it continues
            deadline = time.monotonic() + TERMINATE_S
            while _any_runs(ranks) and time.monotonic() < deadline:
                time.sleep(0.02)
                for rank in ranks:
                    rank.look()
    finally:  # also when Ctrl-C comes again
        for rank in ranks:
            rank.dismiss()
        for rank in ranks:
            rank.reap()


def _any_runs(ranks: Sequence[WatchedRank]) -> bool:
    """Whether the end of any can still be heard of."""
    now = time.monotonic()
    return any(rank.status.exit_code is None and not is_lost(rank.status, now) for rank in ranks)


def _dump_stacks(ranks: Sequence[WatchedRank]) -> None:
    """Has every rank that can write its threads' stacks into its log."""
    for rank in ranks:
        if rank.status.is_alive:
            rank.signal(signal.SIGUSR1)
    time.sleep(STACK_S)


def _listen(selector: selectors.BaseSelector) -> None:
    """Takes in what has been told, waiting for it at most POLL_S."""
    if not selector.get_map():
        time.sleep(POLL_S)
        return
    for key, _ in selector.select(POLL_S):
        if not key.data.receive():
            selector.unregister(key.fileobj)


def _must_end(statuses: Sequence[RankStatus], now: float, stall_timeout_s: float) -> bool:
    """Whether the launch has failed, and all that will be known of why is known."""
    if any(
        fell_by_itself(s) or was_told_to_end(s) or is_stopped(s, now) or is_lost(s, now) for s in statuses
    ):
        return True
    suffered_at = [s.failed_at or s.exited_at or now for s in statuses if fell_with_another(s)]
    if suffered_at:
        nobody_left = not any(s.is_alive for s in statuses)
        return nobody_left or now - min(suffered_at) > SETTLE_S
    patience_s = stall_timeout_s + STALL_MARGIN_S
    if any(s.is_alive and s.phase == "start" for s in statuses):
        patience_s += START_S
    waiting = [s for s in statuses if s.is_alive]
    return bool(waiting) and now - max(s.advanced_at for s in statuses) > patience_s
