"""Plans by TorchRec's planner."""

from __future__ import annotations

import pytest
import torch
from torchrec.distributed.types import ShardingPlan

from reference_impl.dlrm import Table, embedding_collection
from reference_impl.errors import InvalidConfiguration
from reference_impl.layout import PLACEMENTS, Placement, RankLayout
from reference_impl.plan import ShardingType, move_to_group, plan_of_tables, sharding_types
from reference_impl.planner import plan_by_planner

TABLES = [
    Table("huge", 2_000_000, 64, ("a",)),
    Table("large", 90_000, 64, ("b", "c")),
    Table("little", 40, 64, ("d",)),
    Table("tiny", 3, 64, ("e",)),
    Table("sixteen_bits", 500, 64, ("f",), dtype="fp16"),
]
GIB = 2**30


def _plan(layout: RankLayout, memory: int = 8 * GIB, **fixed: ShardingType) -> ShardingPlan:
    model = torch.nn.Module()
    model.tables = embedding_collection(TABLES)
    return plan_by_planner(model, fixed, {t.name: 10.0 for t in TABLES}, layout, 256, memory)


def _shards(plan: ShardingPlan) -> dict:
    return {
        name: (table.sharding_type, table.compute_kernel, table.ranks)
        for name, table in plan_of_tables(plan).items()
    }


@pytest.mark.parametrize("layout", [RankLayout(4), RankLayout(4, 2), RankLayout(8, 2, "interleaved", 4)])
def test_it_spans_one_group_and_plans_the_same_each_time(layout: RankLayout) -> None:
    plan = _shards(_plan(layout))
    assert plan == _shards(_plan(layout))
    assert {r for _, _, ranks in plan.values() for r in ranks} == set(range(layout.group_size))
    assert {kernel for kind, kernel, _ in plan.values() if kind != "data_parallel"} == {"fused"}


def test_a_small_table_is_replicated_and_one_that_fits_no_rank_is_split() -> None:
    kinds = sharding_types(_plan(RankLayout(4), memory=GIB // 2))
    assert kinds["tiny"] == "data_parallel"
    assert kinds["huge"] in ("row_wise", "column_wise")
    # Moments of a data-parallel table would be in fp16.
    assert kinds["sixteen_bits"] != "data_parallel"


@pytest.mark.parametrize(
    "kind", ["table_wise", "row_wise", "column_wise", "table_row_wise", "grid", "data_parallel"]
)
def test_it_keeps_to_what_is_fixed(kind: ShardingType) -> None:
    layout = RankLayout(4, ranks_per_host=2)
    plan = plan_of_tables(_plan(layout, large=kind))
    assert sharding_types(_plan(layout, large=kind))["large"] == kind
    # The column split is the one by hand.
    spec = plan["large"].sharding_spec
    columns = {s.shard_offsets[1] for s in spec.shards} if spec else {0}
    assert len(columns) == {"column_wise": 4, "grid": 2}.get(kind, 1)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_it_moves_to_a_group_like_any_plan(placement: Placement) -> None:
    layout = RankLayout(4, 2, placement)
    moved = plan_of_tables(move_to_group(_plan(layout, large="row_wise"), layout, 1, torch.device("cpu")))
    assert tuple(moved["large"].ranks or ()) == layout.sharding_group(1)
    assert [str(s.placement) for s in moved["large"].sharding_spec.shards] == [
        f"rank:{rank}/cpu" for rank in layout.sharding_group(1)
    ]


@pytest.mark.parametrize("ranks", [2, 4])
def test_no_rank_is_left_without_rows(ranks: int) -> None:
    """Three rows split over four ranks, by ceil(3 / 4), would be; the planner alone would offer it."""
    for table in plan_of_tables(_plan(RankLayout(ranks))).values():
        assert all(
            min(s.shard_sizes) > 0 for s in (table.sharding_spec.shards if table.sharding_spec else ())
        )


def test_what_does_not_fit_is_one_clear_error() -> None:
    with pytest.raises(InvalidConfiguration, match="no plan for 2 ranks of 1,000 bytes") as error:
        _plan(RankLayout(2), memory=1000)
    assert (error.value.field, error.value.value) == ("layout.sharding", "planned")
