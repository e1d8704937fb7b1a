"""What a trace of a real step holds: every range that the components are read from."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import torch
import torch.distributed as dist

from suite.errors import ConfigError
from suite.implementations.sharded import TORCHREC_RANGES
from tests.helpers.distributed import World
from tests.helpers.training import Case, global_batch, rank_batch


def _emitted(case: Case) -> set[str]:
    """Job: names of the profiler's ranges in the second step."""
    run = case.run_spec()
    return _ranges(run, rank_batch(global_batch(0, case.global_batch), run, dist.get_rank()))


def _emitted_unpooled() -> set[str]:
    """Job: the same of a table that gives a vector an id."""
    from suite.batches import RankBatches
    from suite.catalog import load_workload
    from suite.data import open_source
    from suite.spec import RunSpec

    spec = load_workload("lm_vocabulary,row_factor=0.01")
    layout = {"world_size": dist.get_world_size(), "sharding": "row_wise"}
    run = RunSpec.model_validate({"workload": spec, "layout": layout})
    return _ranges(run, RankBatches(run, open_source(spec, 0), dist.get_rank(), torch.device("cpu")).train(0))


def _ranges(run: Any, batch: Any) -> set[str]:
    from suite.implementation import implementation_class

    model = implementation_class(run.implementation)(run, torch.device("cpu"))
    model.train_step(batch)
    with torch.profiler.profile() as profile:
        model.train_step(batch)
    return {event.name for event in profile.events()}


def test_every_components_ranges_are_emitted(world: Callable[[int], World]) -> None:
    """Mixed sharding: table-wise and row-wise have ranges of their own, and so have unpooled tables."""
    emitted = set().union(
        *world(4).run(_emitted, Case(4, "mixed", replica_groups=2)), *world(4).run(_emitted_unpooled)
    )
    prefixes = set(chain.from_iterable(TORCHREC_RANGES.values()))
    assert not {prefix for prefix in prefixes if not any(name.startswith(prefix) for name in emitted)}


def _backwards_with_a_cheaper_optimizer() -> list[set[str]]:
    """Job: FBGEMM's backward operators of a step inside the context, and of one after it."""
    from suite.implementations.reference_2d import Reference2D

    case = Case(1, "table_wise", optimizer="rowwise_adagrad")
    run = case.run_spec()
    model = Reference2D(run, torch.device("cpu"))
    batch = rank_batch(global_batch(0, case.global_batch), run, 0)
    found = []
    cheaper = model.cheaper_table_optimizer()
    assert cheaper is not None
    with cheaper:
        found.append(_profiled(model, batch))
    return [*found, _profiled(model, batch)]


def _profiled(model: Any, batch: Any) -> set[str]:
    with torch.profiler.profile() as profile:
        model.train_step(batch)
    return {e.name for e in profile.events() if e.name.endswith("_cpu") and "backward_codegen" in e.name}


def test_the_cheaper_optimizer_is_sgd_and_the_runs_own_comes_back(world: Callable[[int], World]) -> None:
    ((inside, after),) = world(1).run(_backwards_with_a_cheaper_optimizer)
    assert inside == {"fbgemm::split_embedding_backward_codegen_sgd_cpu"}
    assert after == {"fbgemm::split_embedding_backward_codegen_rowwise_adagrad_cpu"}


@pytest.mark.parametrize("implementation", ["reference_2d", "baseline_1d"])
@pytest.mark.parametrize("schedule", [{"sync_interval": 3}, {"sync_optimizer_state": "delayed"}])
def test_a_sync_schedule_without_replicas_is_refused(schedule: dict, implementation: str) -> None:
    from suite.implementation import implementation_class

    run = Case(2, "mixed", implementation=implementation).but(**schedule).run_spec()
    with pytest.raises(ConfigError, match="one replica group has nothing to sync") as error:
        implementation_class(implementation).check(run)
    assert error.value.report.field in schedule


def _bytes(case: Case) -> int:
    """Job: the optimizer state of this rank."""
    from suite.implementation import implementation_class

    model = implementation_class(case.implementation)(case.run_spec(), torch.device("cpu"))
    return model.parameter_bytes()["embedding_optimizer_state"]


def test_delayed_moments_are_held_twice(world: Callable[[int], World]) -> None:
    """Each of two ranks has all 101 rows, a float32 moment each."""
    case = Case(2, "mixed", replica_groups=2)
    assert world(2).run(_bytes, case) == [101 * 4] * 2
    assert world(2).run(_bytes, case.but(sync_optimizer_state="delayed")) == [2 * 101 * 4] * 2
