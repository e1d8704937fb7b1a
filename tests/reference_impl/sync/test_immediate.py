"""Replicas are averaged: their weights and their moments, over the replica set and nobody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from tests.helpers.distributed import World
from tests.helpers.training import Case


def _sync_rank_numbers(case: Case) -> list[tuple[set[float], set[float]]]:
    """Job: weights hold the rank's number, moments ten times that; returns the values after the sync."""
    from suite.implementations.reference_2d import Reference2D

    model = Reference2D(case.run_spec(), torch.device("cpu"))
    for shard in model.shards:
        shard.weight.detach().fill_(dist.get_rank())
        for state in shard.states:
            state.fill_(10 * dist.get_rank())
    model._sync.average()
    return [
        (
            set(s.weight.flatten().tolist()),
            {value for state in s.states for value in state.flatten().tolist()},
        )
        for s in model.shards
    ]


@pytest.mark.parametrize(
    ("groups", "placement", "means"),
    [
        (2, "interleaved", [0.5, 0.5, 2.5, 2.5]),  # replicas 0 1 and 2 3
        (2, "contiguous", [1.0, 2.0, 1.0, 2.0]),  # replicas 0 2 and 1 3
        (4, "interleaved", [1.5] * 4),
        (4, "contiguous", [1.5] * 4),
        (1, "interleaved", [0.0, 1.0, 2.0, 3.0]),  # 1D: nothing to average
    ],
)
@pytest.mark.parametrize("sharding", ["mixed", "table_wise"])
def test_a_replica_set_ends_at_its_mean(
    sharding: str, groups: int, placement: str, means: list[float], world: Callable[[int], World]
) -> None:
    case = Case(4, sharding, replica_groups=groups, placement=placement)
    for shards, mean in zip(world(4).run(_sync_rank_numbers, case), means, strict=True):
        assert shards
        assert all(shard == ({mean}, {10 * mean}) for shard in shards)


def test_without_moments_weights_alone_are_averaged(world: Callable[[int], World]) -> None:
    case = Case(2, "mixed", replica_groups=2, optimizer="sgd")
    for shards in world(2).run(_sync_rank_numbers, case):
        assert all(shard == ({0.5}, set()) for shard in shards)


def _sync_of_two_states() -> tuple[list[float], list[float]]:
    """Job: as Adam's, a number an element and a number a row; returns both after the sync."""
    from reference_impl.shards import TableShard
    from reference_impl.sync.immediate import DenseSync

    world = dist.group.WORLD
    assert world is not None
    states = torch.full((2, 4), float(dist.get_rank())), torch.full((2,), 10.0 * dist.get_rank())
    DenseSync([TableShard("t", 2, 0, 0, torch.zeros(2, 4), states)], world).average()
    return states[0].flatten().tolist(), states[1].tolist()


def test_every_state_of_an_optimizer_is_averaged(world: Callable[[int], World]) -> None:
    for first, second in world(2).run(_sync_of_two_states):
        assert first == [0.5] * 8
        assert second == [5.0] * 2


def _sync_of_no_shards() -> None:
    """Job: a rank of a large group may hold no table."""
    from reference_impl.sync.immediate import DenseSync

    world = dist.group.WORLD
    assert world is not None
    DenseSync([], world).average()


def test_a_rank_without_shards_has_nothing_to_sync(world: Callable[[int], World]) -> None:
    world(2).run(_sync_of_no_shards)
