"""The process groups of a layout, on real ranks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from reference_impl.errors import InvalidConfiguration
from reference_impl.groups import make_groups
from reference_impl.layout import Placement, RankLayout
from tests.helpers.distributed import GROUP_TIMEOUT, World

CPU = torch.device("cpu")


def _members(layout: RankLayout) -> dict:
    """Job: what this rank's groups hold."""
    groups = make_groups(layout, CPU, GROUP_TIMEOUT)
    return {
        "rank": groups.rank,
        "sharding": dist.get_process_group_ranks(groups.sharding),
        "replica": None if groups.replica is None else dist.get_process_group_ranks(groups.replica),
        "env": (groups.env.world_size, groups.env.rank),
        "dense": dist.get_process_group_ranks(groups.env.process_group),
    }


@pytest.mark.parametrize(
    ("placement", "sharding", "replica"),
    [
        ("interleaved", [[0, 2], [1, 3], [0, 2], [1, 3]], [[0, 1], [0, 1], [2, 3], [2, 3]]),
        ("contiguous", [[0, 1], [0, 1], [2, 3], [2, 3]], [[0, 2], [1, 3], [0, 2], [1, 3]]),
    ],
)
def test_two_groups_of_four_ranks(
    world: Callable[[int], World], placement: Placement, sharding: list, replica: list
) -> None:
    found = world(4).run(_members, RankLayout(4, 2, placement))
    assert [f["sharding"] for f in found] == sharding
    assert [f["replica"] for f in found] == replica
    # TorchRec shards over the N ranks of the group, by the position in it ...
    assert [f["env"] for f in found] == [
        (2, members.index(f["rank"])) for f, members in zip(found, sharding, strict=True)
    ]
    # ... and DDP averages dense gradients over all T.
    assert all(f["dense"] == [0, 1, 2, 3] for f in found)


def test_as_many_groups_as_ranks(world: Callable[[int], World]) -> None:
    found = world(4).run(_members, RankLayout(4, 4))
    assert [f["sharding"] for f in found] == [[0], [1], [2], [3]]
    assert all(f["replica"] == [0, 1, 2, 3] for f in found)


def test_one_group_is_the_world_and_has_no_replicas(world: Callable[[int], World]) -> None:
    for rank, found in enumerate(world(2).run(_members, RankLayout(2, 1))):
        assert found == {
            "rank": rank,
            "sharding": [0, 1],
            "replica": None,
            "env": (2, rank),
            "dense": [0, 1],
        }


def test_no_process_group_is_refused_by_name() -> None:
    with pytest.raises(InvalidConfiguration, match="has no ranks") as error:
        make_groups(RankLayout(4, 2), CPU, GROUP_TIMEOUT)
    assert error.value.field == "layout.world_size"


def _refusal(layout: RankLayout) -> str:
    """Job: what a layout of another size is refused with."""
    with pytest.raises(InvalidConfiguration) as error:
        make_groups(layout, CPU, GROUP_TIMEOUT)
    return str(error.value)


def test_a_layout_of_another_size_is_refused_on_every_rank(world: Callable[[int], World]) -> None:
    for message in world(2).run(_refusal, RankLayout(4, 2)):
        assert "layout.world_size = 4" in message
        assert "has 2 ranks" in message
