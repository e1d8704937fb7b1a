"""Moments one sync behind, against hand arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from tests.helpers.distributed import World


def _three_syncs() -> tuple[list[tuple[float, float]], int]:
    """Job: before sync j = 1, 2, 3 rank r adds j + r to its weight and 10 j (1 + r) to its moment.

    Returns weight and moment after each sync, and the bytes that the strategy holds.
    """
    from reference_impl.shards import TableShard
    from reference_impl.sync.delayed import DelayedMomentsSync

    world, rank = dist.group.WORLD, dist.get_rank()
    assert world is not None
    weight, moments = torch.zeros(1, 4), torch.tensor([7.0])  # an accumulator may start above zero
    sync = DelayedMomentsSync([TableShard("t", 1, 0, 0, weight, (moments,))], world)
    seen = []
    for j in (1, 2, 3):
        weight += j + rank
        moments += 10 * j * (1 + rank)
        sync.average()
        assert (weight == weight[0, 0]).all()
        seen.append((float(weight[0, 0]), float(moments)))
    return seen, sum(mean.nbytes for _, mean in sync.waiting())


def test_weights_are_averaged_now_and_moments_are_those_of_the_sync_before(
    world: Callable[[int], World],
) -> None:
    # On average 1.5, 2.5 and 3.5 are added to the weight, and d = 15, 30 and 45 to the moment.
    # a_0 = 7; a_1 = 7 + 15 = 22; a_2 = a_0 + 30 = 37; a_3 = a_1 + 45 = 67. In use: a_0, a_1, a_2.
    for seen, held in world(2).run(_three_syncs):
        assert seen == [(1.5, 7.0), (4.0, 22.0), (7.5, 37.0)]
        assert held == 4
