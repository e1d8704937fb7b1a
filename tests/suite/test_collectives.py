"""Counts against numbers worked out by hand: float32 is 4 bytes, int64 is 8."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

from reference_impl.layout import RankLayout
from suite.collectives import CollectiveCounter, GroupNames
from tests.helpers.distributed import World

Counted = list[tuple[str, str, int, int, int]]


def count(function: Callable[[], object], layout: RankLayout | None = None) -> Counted:
    """(name, group, calls, bytes, wire bytes) of what this rank issues in ``function``."""
    names = GroupNames(layout or RankLayout(dist.get_world_size()), dist.get_rank())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with CollectiveCounter(names) as counter:
            function()
    return [(c.name, c.group, c.calls, c.bytes, c.wire_bytes) for c in counter.counts()]


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape)


# Jobs: each runs on every rank of a world of n ranks.


def all_to_all_even() -> Counted:
    n = dist.get_world_size()
    return count(lambda: dist.all_to_all_single(ones(n * 3), ones(n * 3)))


def all_to_all_uneven() -> Counted:
    """Every rank sends k + 1 rows of 5 floats to rank k."""
    n, r = dist.get_world_size(), dist.get_rank()
    sent = [k + 1 for k in range(n)]
    return count(lambda: dist.all_to_all_single(ones(n * (r + 1), 5), ones(sum(sent), 5), [r + 1] * n, sent))


def all_to_all_of_nothing() -> Counted:
    zeros = [0] * dist.get_world_size()
    return count(lambda: dist.all_to_all_single(ones(0, 5), ones(0, 5), zeros, zeros))


def all_to_all_list() -> Counted:
    n = dist.get_world_size()
    return count(lambda: dist.all_to_all([ones(3) for _ in range(n)], [ones(3) for _ in range(n)]))


def split_sizes() -> Counted:
    n = dist.get_world_size()
    sizes = torch.ones(n, dtype=torch.int64)
    return count(lambda: dist.all_to_all_single(torch.empty_like(sizes), sizes))


def all_reduce() -> Counted:
    return count(lambda: dist.all_reduce(ones(6)))


def all_reduce_async_twice() -> Counted:
    return count(lambda: [dist.all_reduce(ones(6), async_op=True).wait() for _ in range(2)])


def all_reduce_coalesced() -> Counted:
    world = dist.group.WORLD
    assert world is not None
    return count(lambda: world.allreduce_coalesced([ones(6), ones(2)]).wait())


def ddp_backward() -> Counted:
    """DDP's own reducer: 4 weights of a linear layer, one bucket."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1, bias=False))
    return count(lambda: model(ones(2, 4)).sum().backward())


def reduce_scatter_tensor() -> Counted:
    n = dist.get_world_size()
    return count(lambda: dist.reduce_scatter_tensor(ones(3), ones(3 * n)))


def reduce_scatter_list() -> Counted:
    n = dist.get_world_size()
    return count(lambda: dist.reduce_scatter(ones(3), [ones(3) for _ in range(n)]))


def all_gather_list() -> Counted:
    n = dist.get_world_size()
    return count(lambda: dist.all_gather([ones(5) for _ in range(n)], ones(5)))


def all_gather_tensor() -> Counted:
    n = dist.get_world_size()
    return count(lambda: dist.all_gather_into_tensor(ones(5 * n), ones(5)))


def broadcast() -> Counted:
    return count(lambda: dist.broadcast(ones(5), 1))


def scatter() -> Counted:
    chunks = [ones(3) for _ in range(dist.get_world_size())] if dist.get_rank() == 1 else None
    return count(lambda: dist.scatter(ones(3), chunks, 1))


def gather() -> Counted:
    chunks = [ones(3) for _ in range(dist.get_world_size())] if dist.get_rank() == 1 else None
    return count(lambda: dist.gather(ones(3), chunks, 1))


def reduce() -> Counted:
    return count(lambda: dist.reduce(ones(3), 1))


def send_and_receive() -> Counted:
    if dist.get_rank() == 0:
        return count(lambda: dist.send(ones(3), 1))
    return count(lambda: dist.recv(ones(3), 0) if dist.get_rank() == 1 else None)


def barrier() -> Counted:
    return count(dist.barrier)


Expected = Callable[[int, int], tuple[int, int]]


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize(
    ("job", "name", "calls", "expected"),
    [
        (all_to_all_even, "all_to_all", 1, lambda n, r: (n * 12, (n - 1) * 12)),
        (
            all_to_all_uneven,
            "all_to_all",
            1,
            lambda n, r: (n * (n + 1) * 10, n * (n + 1) * 10 - (r + 1) * 20),
        ),
        (all_to_all_of_nothing, "all_to_all", 1, lambda n, r: (0, 0)),
        (all_to_all_list, "all_to_all", 1, lambda n, r: (n * 12, (n - 1) * 12)),
        (split_sizes, "all_to_all", 1, lambda n, r: (n * 8, (n - 1) * 8)),
        (all_reduce, "all_reduce", 1, lambda n, r: (24, 24)),
        (all_reduce_async_twice, "all_reduce", 2, lambda n, r: (48, 48)),
        (all_reduce_coalesced, "all_reduce", 1, lambda n, r: (32, 32)),
        (ddp_backward, "all_reduce", 1, lambda n, r: (16, 16)),
        (reduce_scatter_tensor, "reduce_scatter", 1, lambda n, r: (n * 12, (n - 1) * 12)),
        (reduce_scatter_list, "reduce_scatter", 1, lambda n, r: (n * 12, (n - 1) * 12)),
        (all_gather_list, "all_gather", 1, lambda n, r: (n * 20, (n - 1) * 20)),
        (all_gather_tensor, "all_gather", 1, lambda n, r: (n * 20, (n - 1) * 20)),
        (broadcast, "broadcast", 1, lambda n, r: (n * 20, (n - 1) * 20) if r == 1 else (0, 0)),
        (scatter, "scatter", 1, lambda n, r: (n * 12, (n - 1) * 12) if r == 1 else (0, 0)),
        (gather, "gather", 1, lambda n, r: (12, 0) if r == 1 else (12, 12)),
        (reduce, "reduce", 1, lambda n, r: (12, 0) if r == 1 else (12, 12)),
        (barrier, "barrier", 1, lambda n, r: (0, 0)),
    ],
)
def test_counts(
    world: Callable[[int], World],
    n: int,
    job: Callable[[], Counted],
    name: str,
    calls: int,
    expected: Expected,
) -> None:
    assert world(n).run(job) == [[(name, "world", calls, *expected(n, r))] for r in range(n)]


def test_send_and_receive(world: Callable[[int], World]) -> None:
    sent, received = world(2).run(send_and_receive)
    assert sent == [("send", "world", 1, 12, 12)]
    assert received == [("recv", "world", 1, 0, 0)]


def groups_of_a_layout(replica_groups: int) -> Counted:
    """One all-reduce of 4 bytes in each of this rank's groups, made as the reference makes them."""
    from datetime import timedelta

    from reference_impl.groups import make_groups

    layout = RankLayout(dist.get_world_size(), replica_groups)
    groups = make_groups(layout, torch.device("cpu"), timedelta(seconds=20))

    def talk() -> None:
        dist.all_reduce(ones(1))
        dist.all_reduce(ones(2), group=groups.sharding)
        if groups.replica is not None:
            dist.all_reduce(ones(3), group=groups.replica)

    return count(talk, layout)


@pytest.mark.parametrize(
    ("replica_groups", "expected"),
    [
        (1, [("all_reduce", "world", 2, 12, 12)]),
        (
            2,
            [
                ("all_reduce", "replica", 1, 12, 12),
                ("all_reduce", "sharding", 1, 8, 8),
                ("all_reduce", "world", 1, 4, 4),
            ],
        ),
        (
            4,
            [
                ("all_reduce", "replica", 1, 12, 12),
                ("all_reduce", "sharding", 1, 8, 0),
                ("all_reduce", "world", 1, 4, 4),
            ],
        ),
    ],
)
def test_groups_are_named(world: Callable[[int], World], replica_groups: int, expected: Counted) -> None:
    assert world(4).run(groups_of_a_layout, replica_groups) == [expected] * 4


def test_names_by_ranks() -> None:
    names = GroupNames(RankLayout(8, 2), 3)  # interleaved: groups {0 2 4 6} {1 3 5 7}
    assert names.name([1, 3, 5, 7], False) == "sharding"
    assert names.name([2, 3], False) == "replica"
    assert names.name(range(8), True) == "world"
    assert names.name([3, 5], False) == "sharding", "a part of the sharding group"
    assert names.name([0, 3], False) == "world", "part of no other"
    contiguous = GroupNames(RankLayout(8, 2, "contiguous"), 3)
    assert contiguous.name([0, 1, 2, 3], False) == "sharding"
    assert contiguous.name([3, 7], False) == "replica"
    assert GroupNames(RankLayout(1), 0).name([0], False) == "world"


def functional() -> str:
    try:
        count(lambda: funcol.all_reduce(ones(3), "sum", dist.group.WORLD))
    except NotImplementedError as error:
        return str(error)
    return "counted"


def test_a_functional_collective_is_refused_not_missed(world: Callable[[int], World]) -> None:
    assert all("all_reduce" in answer for answer in world(2).run(functional))
