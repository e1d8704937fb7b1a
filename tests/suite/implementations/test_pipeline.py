"""TorchRec's train pipeline trains the same, in another order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from tests.helpers.distributed import World
from tests.helpers.training import Case, global_batch, rank_batch, train

CASES = [
    Case(2, "mixed", implementation="baseline_1d"),
    # Mean pooling by sum and division, whose code the pipeline has to trace.
    Case(2, "all_types", implementation="baseline_1d", exchange_dtype="fp16"),
    Case(4, "host_types", replica_groups=2, ranks_per_host=2, sync_interval=3),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_same_to_the_last_bit(case: Case, world: Callable[[int], World]) -> None:
    plain, pipelined = (
        world(case.world_size).run(train, case.but(pipeline=p)) for p in ("none", "sparse_dist")
    )
    for one, other in zip(plain, pipelined, strict=True):
        assert one.losses == other.losses
        assert one.digests == other.digests
        assert one.final.keys() == other.final.keys()
        assert all(torch.equal(one.final[name], other.final[name]) for name in one.final)


def _steps(case: Case) -> tuple[list[dict[str, int]], torch.Tensor, float]:
    """Job: calls by collective in each of three steps, a prediction, and the loss of one step more."""
    from suite.collectives import CollectiveCounter, GroupNames
    from suite.implementation import implementation_class
    from suite.rank_run import announced

    run = case.run_spec()
    model = implementation_class(case.implementation)(run, torch.device("cpu"))
    batch = rank_batch(global_batch(0, case.global_batch), run, dist.get_rank())
    next_of = announced(model, lambda step: batch, 3)
    calls = []
    for step in range(3):
        told = next_of(step)
        with CollectiveCounter(GroupNames(run.layout.ranks(), dist.get_rank())) as counter:
            model.train_step(told)
        calls.append({count.name: count.calls for count in counter.counts()})
    # The last step goes untold: it trains by itself.
    return calls, model.predict(batch), float(model.train_step(batch))


def test_a_step_exchanges_the_ids_of_the_next_batch_and_prediction_needs_no_pipeline(
    world: Callable[[int], World],
) -> None:
    case = Case(2, "table_wise", implementation="baseline_1d")
    plain, pipelined = (world(2).run(_steps, case.but(pipeline=p))[0] for p in ("none", "sparse_dist"))
    each = plain[0][0]["all_to_all"]
    ids = each - 2  # one exchange of vectors, one of their gradients
    assert ids > 0
    assert [step["all_to_all"] for step in pipelined[0]] == [each + ids, each, each - ids]
    assert torch.equal(plain[1], pipelined[1])
    assert plain[2] == pipelined[2]


def _one_step(case: Case, factory: str) -> str:
    """Job: what a training step of a model of the user's own says."""
    from suite.errors import ConfigError
    from suite.implementation import implementation_class

    run = case.run_spec()
    tables = tuple(table.model_copy(update={"pooling": "sum"}) for table in run.workload.tables)
    model = run.workload.model.model_copy(update={"factory": factory})
    workload = run.workload.model_copy(update={"model": model, "tables": tables})
    run = run.model_copy(update={"workload": workload})
    built = implementation_class(case.implementation)(run, torch.device("cpu"))
    try:
        built.train_step(rank_batch(global_batch(0, case.global_batch), run, dist.get_rank()))
    except ConfigError as error:
        return f"{error.report.field}: {error.report.message}"
    return "trained"


def test_a_model_whose_tables_would_be_left_out_is_refused(world: Callable[[int], World]) -> None:
    case = Case(2, "table_wise", implementation="baseline_1d", pipeline="sparse_dist")
    factory = "tests.helpers.models:ComputesItsInput"
    for said in world(2).run(_one_step, case, factory):
        assert said.startswith("pipeline: TorchRec cannot pipeline this model"), said
    assert world(2).run(_one_step, case.but(pipeline="none"), factory) == ["trained"] * 2
