"""A user's own model by ``model.factory``: two EmbeddingBagCollections of unlike dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from suite.errors import ConfigError
from suite.implementations.model import build_model
from suite.oracle.batch import GlobalBatch
from suite.spec import RunSpec
from tests.helpers.distributed import World
from tests.helpers.training import rank_batch

CPU = torch.device("cpu")
ROWS = {"left": 20, "right_a": 30, "right_b": 10}


def _run(
    factory: str = "two_towers", world_size: int = 1, groups: int = 1, sharding: str = "table_wise"
) -> RunSpec:
    return RunSpec.model_validate(
        {
            "workload": {
                "name": "own",
                "model": {"dense_features": 2, "factory": f"tests.helpers.models:{factory}"},
                "tables": [
                    {
                        "name": name,
                        "rows": rows,
                        "dim": 16 if name == "left" else 4,
                        "features": [f"of_{name}"],
                        "pooling": "none" if factory == "bags_and_tokens" and name != "left" else "sum",
                    }
                    for name, rows in ROWS.items()
                ],
                "data": {"source": "unused:Unused"},
                "batch": {"global_size": 16, "per_rank": 8},
            },
            "layout": {"world_size": world_size, "replica_groups": groups, "sharding": sharding},
            "optimizer": {
                "name": "sgd",
                "learning_rate": 4.0,
                "dense": {"name": "sgd", "learning_rate": 0.5},
            },
        }
    )


def _train(run: RunSpec) -> dict[str, Any]:
    """Job: twenty steps on one global batch."""
    from suite.implementations.reference_2d import Reference2D

    draw = torch.Generator().manual_seed(0)
    bags = {
        f"of_{name}": [[int(i)] for i in torch.randint(0, rows, (16,), generator=draw)]
        for name, rows in ROWS.items()
    }
    samples = GlobalBatch(torch.randn(16, 2, generator=draw), torch.arange(16) % 2.0, bags)
    model = Reference2D(run, CPU)
    batch = rank_batch(samples, run, dist.get_rank())
    losses = [float(model.train_step(batch)) for _ in range(20)]
    return {"losses": losses, "weights": dict(model.gather_weights())}


@pytest.mark.parametrize("sharding", ["table_wise", "row_wise"])
@pytest.mark.parametrize("groups", [1, 2])
def test_two_collections_of_unlike_dims_train_in_1d_and_2d(
    groups: int, sharding: str, world: Callable[[int], World]
) -> None:
    """With SGD averaging the groups' weights equals one step on the whole batch, so M does not matter
    as long as forward passes see equal weights: every layout trains as one process does."""
    (alone,) = world(1).run(_train, _run())
    ranks = world(2).run(_train, _run(world_size=2, groups=groups, sharding=sharding))
    losses = torch.tensor([rank["losses"] for rank in ranks]).mean(0)
    assert losses[-1] < 0.5 * losses[0]
    # The project's norm for ten float32 steps, max|a - b| <= 1e-5 max|b|; here twice as many.
    assert _distance(losses, torch.tensor(alone["losses"])) < 2e-5
    for rank in ranks:
        assert rank["weights"].keys() == alone["weights"].keys()
        for name, weight in rank["weights"].items():
            assert _distance(weight, alone["weights"][name]) < 2e-5, name


@pytest.mark.parametrize(("groups", "sharding"), [(1, "row_wise"), (2, "row_wise"), (1, "column_wise")])
def test_pooled_and_unpooled_tables_in_one_model(
    groups: int, sharding: str, world: Callable[[int], World]
) -> None:
    """As above: under SGD every layout trains as one process does."""
    (alone,) = world(1).run(_train, _run("bags_and_tokens"))
    ranks = world(2).run(_train, _run("bags_and_tokens", 2, groups, sharding))
    losses = torch.tensor([rank["losses"] for rank in ranks]).mean(0)
    assert losses[-1] < 0.9 * losses[0]
    assert _distance(losses, torch.tensor(alone["losses"])) < 2e-5
    for rank in ranks:
        for name, weight in rank["weights"].items():
            assert _distance(weight, alone["weights"][name]) < 2e-5, name


def test_weights_keep_the_users_names(world: Callable[[int], World]) -> None:
    (rank,) = world(1).run(_train, _run())
    assert rank["weights"].keys() == {
        *(f"table.{name}" for name in ROWS),
        *(f"dense.{side}_module.{kind}" for side in ("left", "right") for kind in ("weight", "bias")),
    }


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("of_other_tables", r"\['right_a', 'right_b'\]"),
        ("of_too_few_tables", r"\['right_b'\]"),
        ("of_allocated_tables", "allocated on every rank"),
        ("of_tables_alone", "no dense parameter"),
        ("no_module", "returned str"),
        ("raises", "it raised ZeroDivisionError"),
        ("there_is_none", "no attribute"),
    ],
)
def test_a_factory_that_does_not_fit_is_refused_by_name(factory: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        build_model(_run(factory).workload, 0, CPU)
    assert error.value.report.field == "model.factory"
    assert error.value.report.remedy


def test_its_dense_layers_depend_on_the_seed_alone() -> None:
    workload = _run().workload
    first, again, other = (
        build_model(workload, seed, CPU).get_parameter("left_module.weight") for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max())
