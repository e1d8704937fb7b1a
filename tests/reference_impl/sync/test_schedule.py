"""When a sync is due: counting, without ranks."""

from __future__ import annotations

import pytest

from reference_impl.sync.contract import ReplicaSync
from reference_impl.sync.schedule import Schedule


class Counted(ReplicaSync):
    def __init__(self) -> None:
        self.syncs = 0

    def average(self) -> None:
        self.syncs += 1


@pytest.mark.parametrize(("interval", "due"), [(1, [1, 2, 3, 4, 5, 6, 7]), (3, [3, 6]), (8, [])])
def test_every_kth_step(interval: int, due: list[int]) -> None:
    sync = Counted()
    schedule = Schedule(sync, interval)
    seen = []
    for step in range(1, 8):
        before = sync.syncs
        schedule.after_step()
        seen += [step] * (sync.syncs - before)
    assert seen == due


def test_catching_up_syncs_only_after_steps_without_one() -> None:
    sync = Counted()
    schedule = Schedule(sync, 3)
    schedule.catch_up()
    assert sync.syncs == 0
    schedule.after_step()
    schedule.catch_up()
    schedule.catch_up()
    assert sync.syncs == 1


def test_after_catching_up_the_next_sync_is_due_a_whole_interval_later() -> None:
    sync = Counted()
    schedule = Schedule(sync, 3)
    schedule.after_step()
    schedule.catch_up()
    for _ in range(2):
        schedule.after_step()
    assert sync.syncs == 1
    schedule.after_step()
    assert sync.syncs == 2
