"""The ranges that the libraries do not emit, on one rank with DDP."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from reference_impl.ranges import backward
from tests.helpers.distributed import World


def take_apart() -> list[tuple[str, float, float]]:
    """Job: the ranges and collectives of one backward pass, in the order in which they began."""
    model = DistributedDataParallel(nn.Linear(4, 1))
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        backward(model(torch.ones(8, 4)).sum())
    wanted = ("## ", "c10d::allreduce_")
    events = [e for e in profiler.events() if e.name.startswith(wanted)]
    return [(e.name, e.time_range.start, e.time_range.end) for e in events]


def test_ddps_last_wait_has_a_range_inside_the_backward_pass(world: Callable[[int], World]) -> None:
    for ranges in world(2).run(take_apart):
        found = {name: (start, end) for name, start, end in ranges}
        outer, wait = found["## dense_backward ##"], found["## dense_all_reduce wait ##"]
        # It opens when the last all-reduce has been issued, and closes before the pass returns.
        assert outer[0] < found["c10d::allreduce_"][1] <= wait[0] < wait[1] <= outer[1]


def gradients() -> list[float]:
    """Job: without a profiler it is a plain backward pass."""
    model = DistributedDataParallel(nn.Linear(2, 1))
    backward(model(torch.ones(3, 2)).sum())
    (weight, bias) = (parameter.grad for parameter in model.parameters())
    assert weight is not None
    assert bias is not None
    return [*weight[0].tolist(), *bias.tolist()]


def test_gradients_are_those_of_a_backward_pass(world: Callable[[int], World]) -> None:
    assert world(2).run(gradients) == [[3, 3, 3]] * 2
