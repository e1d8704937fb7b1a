"""Whatever the tables, the batch and the layout: properties, on examples that hypothesis draws.

Tolerance of the trainings: as in ``test_oracle.py``, 1e-5 of a tensor's largest value; but that value counts
as no less than 1e-3 for weights and 1e-8 for second moments (a gradient of 1e-4), since here some gradients
are sums that nearly cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.dlrm import Table, embedding_collection
from reference_impl.layout import PLACEMENTS, RankLayout, leaves_none_empty
from reference_impl.plan import column_shards, plan_of_tables, plan_one_group
from suite.oracle.batch import GlobalBatch
from suite.oracle.dlrm import Feature
from suite.oracle.names import BOTTOM, OVER, layers, named
from suite.oracle.optimizers import DenseOptimizer, TableOptimizer
from suite.oracle.training import Oracle
from suite.spec import RunSpec
from tests.helpers.distributed import World
from tests.helpers.training import rank_batch

CPU = torch.device("cpu")
TYPES = ("table_wise", "row_wise", "column_wise", "table_row_wise", "grid", "data_parallel")
STEPS = 2


@st.composite
def layouts(draw: st.DrawFn, world_sizes: st.SearchStrategy[int]) -> RankLayout:
    t = draw(world_sizes)
    m = draw(st.sampled_from([m for m in range(1, t + 1) if t % m == 0]))
    placement = draw(st.sampled_from(PLACEMENTS))
    whole = RankLayout(t, m, placement)
    hosts = [h for h in range(1, t + 1) if whole._splits_evenly(h)]
    return RankLayout(t, m, placement, draw(st.sampled_from([None, *hosts])))


@st.composite
def sharded_tables(draw: st.DrawFn, layout: RankLayout) -> list[dict[str, Any]]:
    """One to four tables of one dim, each with a sharding type that leaves no rank without rows."""
    dim = draw(st.sampled_from([4, 8, 16]))
    split = {"row_wise": layout.group_size} | dict.fromkeys(
        ("table_row_wise", "grid"), layout.group_ranks_per_host
    )
    tables = []
    for i in range(draw(st.integers(1, 4))):
        rows = draw(st.integers(1, 20))
        tables.append(
            {
                "name": f"table{i}",
                "rows": rows,
                "dim": dim,
                "features": [f"feature{i}{j}" for j in range(draw(st.integers(1, 2)))],
                "pooling": draw(st.sampled_from(["sum", "mean"])),
                "sharding": draw(
                    st.sampled_from([k for k in TYPES if leaves_none_empty(rows, split.get(k, 1))])
                ),
            }
        )
    return tables


@st.composite
def batches(draw: st.DrawFn, tables: list[dict[str, Any]]) -> GlobalBatch:
    """Of one sample to nine, fewer than there are ranks among them."""
    size = draw(st.integers(1, 9))
    noise = torch.Generator().manual_seed(draw(st.integers(0, 1000)))

    def bags(rows: int) -> st.SearchStrategy[list[list[int]]]:
        one = st.integers(0, rows - 1)
        bag = st.one_of(
            st.just([]),
            one.map(lambda i: [i]),
            st.just(list(range(rows))),
            one.map(lambda i: [i] * 5),
            st.lists(one, max_size=6),
        )
        return st.one_of(st.just([[]] * size), st.lists(bag, min_size=size, max_size=size))

    return GlobalBatch(
        torch.randn(size, 2, generator=noise),
        (torch.rand(size, generator=noise) < 0.5).float(),
        {f: draw(bags(t["rows"])) for t in tables for f in t["features"]},
    )


@st.composite
def trainings(draw: st.DrawFn, world_size: int) -> tuple[RunSpec, list[GlobalBatch]]:
    layout = draw(layouts(st.just(world_size)))
    tables = draw(sharded_tables(layout))
    dim = tables[0]["dim"]
    run = RunSpec.model_validate(
        {
            "workload": {
                "name": "drawn",
                "model": {"dense_features": 2, "bottom_mlp": [6, dim], "over_mlp": [6, 4, 1]},
                "tables": [{k: v for k, v in t.items() if k != "sharding"} for t in tables],
                "data": {"source": "unused:Unused"},
                "batch": {"global_size": 1, "per_rank": 1},
            },
            "layout": {
                "world_size": layout.world_size,
                "replica_groups": layout.replica_groups,
                "placement": layout.placement,
                "ranks_per_host": layout.ranks_per_host,
                "sharding_by_table": {t["name"]: t["sharding"] for t in tables},
            },
            "optimizer": {
                "name": draw(st.sampled_from(["sgd", "rowwise_adagrad"])),
                "learning_rate": 0.1,
                "eps": 0.01,
                "dense": {"name": "sgd", "learning_rate": 0.1},
            },
        }
    )
    return run, [draw(batches(tables)) for _ in range(STEPS)]


@given(st.data())
@settings(max_examples=200)
def test_shards_by_hand_cover_every_table_once_and_none_is_empty(data: st.DataObject) -> None:
    layout = data.draw(layouts(st.integers(1, 12)))
    tables = data.draw(sharded_tables(layout))
    model = torch.nn.Module()
    model.tables = embedding_collection(
        [Table(t["name"], t["rows"], t["dim"], tuple(t["features"])) for t in tables]
    )
    plan = plan_of_tables(plan_one_group(model, {t["name"]: t["sharding"] for t in tables}, layout, CPU))
    for table in tables:
        found = plan[table["name"]]
        assert set(found.ranks) <= set(range(layout.group_size))
        if table["sharding"] == "data_parallel":
            assert found.ranks == list(range(layout.group_size))
            continue
        covered = torch.zeros(table["rows"], table["dim"])
        for rank, shard in zip(found.ranks, found.sharding_spec.shards, strict=True):
            assert shard.placement.rank() == rank
            (row, column), (height, width) = shard.shard_offsets, shard.shard_sizes
            assert height > 0
            assert width % 4 == 0
            covered[row : row + height, column : column + width] += 1
        assert torch.equal(covered, torch.ones_like(covered))


@given(layouts(st.integers(1, 24)))
@settings(max_examples=200)
def test_hosts_of_every_group_have_equally_many_of_its_ranks(layout: RankLayout) -> None:
    on_host = layout.ranks_per_host or layout.world_size
    for group in range(layout.replica_groups):
        hosts = [{layout.rank_of(group, i) // on_host for i in host} for host in layout.group_hosts]
        assert all(len(host) == 1 for host in hosts)
        assert len(set.union(*hosts)) == len(hosts)  # no host twice


@given(trainings(2))
@settings(max_examples=15)
def test_two_ranks_train_as_the_oracle(world: Callable[[int], World], drawn: Any) -> None:
    _equal_to_the_oracle(world(2), *drawn)


@given(trainings(4))
@settings(max_examples=10)
def test_four_ranks_train_as_the_oracle(world: Callable[[int], World], drawn: Any) -> None:
    _equal_to_the_oracle(world(4), *drawn)


@pytest.mark.slow
@given(trainings(4))
@settings(max_examples=200)
def test_four_ranks_train_as_the_oracle_many_times(world: Callable[[int], World], drawn: Any) -> None:
    _equal_to_the_oracle(world(4), *drawn)


def _equal_to_the_oracle(world: World, run: RunSpec, steps: list[GlobalBatch]) -> None:
    ranks = world.run(_train, run, steps)
    initial, _, _ = ranks[0]
    layout, optimizer = run.layout.ranks(), run.optimizer
    oracle = Oracle(
        [Feature(f, t.name, t.pooling) for t in run.workload.tables for f in t.features],
        {t.name: initial[f"table.{t.name}"] for t in run.workload.tables},
        layers(initial, BOTTOM),
        layers(initial, OVER),
        TableOptimizer(optimizer.name, optimizer.learning_rate, optimizer.eps),
        DenseOptimizer("sgd", optimizer.dense.learning_rate),
        run.layout.replica_groups,
        {t.name: column_shards(run.layout.sharding_of(t.name), t.dim, layout) for t in run.workload.tables},
    )
    losses = [oracle.step(batch) for batch in steps]
    expected = named(oracle, with_moments=optimizer.name != "sgd")
    for _, final, _ in ranks:
        assert final.keys() == expected.keys()
        for name, tensor in expected.items():
            floor = 1e-8 if name.startswith("moment") else 1e-3
            off = float((final[name].double() - tensor).abs().max())
            assert off <= 1e-5 * max(float(tensor.abs().max()), floor), name
    measured = torch.tensor([local for _, _, local in ranks], dtype=torch.float64).mean(0)
    assert torch.allclose(measured, torch.tensor(losses, dtype=torch.float64), rtol=1e-5, atol=1e-7)


def _train(run: RunSpec, steps: list[GlobalBatch]) -> tuple[dict, dict, list[float]]:
    """Job: weights before and after, and the local losses."""
    import torch.distributed as dist

    from suite.implementation import implementation_class

    model: Any = implementation_class(run.implementation)(run, CPU)
    initial = dict(model.gather_weights())
    losses = [float(model.train_step(rank_batch(batch, run, dist.get_rank()))) for batch in steps]
    model.sync_replicas()
    return initial, dict(model.gather_weights()), losses
