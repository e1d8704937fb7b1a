"""What a trace of a real step holds: every range that the components are read from."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import torch
import torch.distributed as dist

from suite.implementations.sharded import TORCHREC_RANGES
from tests.helpers.distributed import World
from tests.helpers.training import Case, global_batch, rank_batch


def _emitted(case: Case) -> set[str]:
    """Job: names of the profiler's ranges in the second step."""
    from suite.implementation import implementation_class

    run = case.run_spec()
    model = implementation_class(case.implementation)(run, torch.device("cpu"))
    batch = rank_batch(global_batch(0, case.global_batch), run, dist.get_rank())
    model.train_step(batch)
    with torch.profiler.profile() as profile:
        model.train_step(batch)
    return {event.name for event in profile.events()}


def test_every_components_ranges_are_emitted(world: Callable[[int], World]) -> None:
    """Mixed sharding: table-wise and row-wise have ranges of their own."""
    emitted = set().union(*world(4).run(_emitted, Case(4, "mixed", replica_groups=2)))
    prefixes = set(chain.from_iterable(TORCHREC_RANGES.values()))
    assert not {prefix for prefix in prefixes if not any(name.startswith(prefix) for name in emitted)}
