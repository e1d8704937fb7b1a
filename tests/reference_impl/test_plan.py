"""The plan of one sharding group, and its move onto a group's global ranks."""

from __future__ import annotations

import pytest
import torch
from torchrec.distributed.types import ParameterSharding, ShardingPlan

from reference_impl.dlrm import Table, embedding_collection
from reference_impl.errors import InvalidConfiguration
from reference_impl.layout import PLACEMENTS, Placement, RankLayout
from reference_impl.plan import ShardingType, embedding_collections, move_to_group, plan_one_group

CPU = torch.device("cpu")
TABLES = [
    Table("wide", 100, 8, ("a",)),
    Table("large", 90, 8, ("b",)),
    Table("middle", 60, 8, ("c",)),
    Table("little", 40, 8, ("d",)),
    Table("tiny", 30, 8, ("e",)),
]


def _plan(group_size: int, ranks_per_host: int | None = None, **sharding: ShardingType) -> ShardingPlan:
    """As said, else table-wise."""
    model = torch.nn.Module()
    model.tables = embedding_collection(TABLES)
    kinds: dict[str, ShardingType] = {t.name: sharding.get(t.name, "table_wise") for t in TABLES}
    layout = RankLayout(group_size, ranks_per_host=ranks_per_host)
    return plan_one_group(model, kinds, layout, CPU)


def _table(plan: ShardingPlan, name: str) -> ParameterSharding:
    return plan.plan["tables"][name]


def _shards(plan: ShardingPlan, name: str) -> list[tuple[str, list[int], list[int]]]:
    """Placement, offsets and sizes of a table's shards."""
    return [
        (str(s.placement), s.shard_offsets, s.shard_sizes) for s in _table(plan, name).sharding_spec.shards
    ]


def test_under_2d_the_plan_spans_one_group_and_not_the_world() -> None:
    """T = 8, M = 2: the plan is for N = 4 ranks."""
    plan = _plan(RankLayout(8, 2).group_size, wide="row_wise")
    ranks = {rank for t in TABLES for rank in _table(plan, t.name).ranks}
    assert ranks == {0, 1, 2, 3}
    assert [(offsets, sizes) for _, offsets, sizes in _shards(plan, "wide")] == [
        ([0, 0], [25, 8]),
        ([25, 0], [25, 8]),
        ([50, 0], [25, 8]),
        ([75, 0], [25, 8]),
    ]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("sharding", ["table_wise", "row_wise"])
def test_a_plan_made_for_the_world_is_refused(placement: Placement, sharding: ShardingType) -> None:
    """T = 8, M = 2: a plan made for 8 ranks reaches ranks that a group's all-to-all cannot."""
    for_the_world = _plan(8, **{t.name: sharding for t in TABLES})
    with pytest.raises(InvalidConfiguration, match=r"Plan for N = T / M = 4 ranks, not for T = 8") as error:
        move_to_group(for_the_world, RankLayout(8, 2, placement), 0, CPU)
    assert error.value.field.startswith("plan.")
    assert set(error.value.value) <= {4, 5, 6, 7}  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("placement", "group", "ranks"),
    [
        ("interleaved", 0, [0, 2, 4, 6]),
        ("interleaved", 1, [1, 3, 5, 7]),
        ("contiguous", 0, [0, 1, 2, 3]),
        ("contiguous", 1, [4, 5, 6, 7]),
    ],
)
def test_moving_replaces_positions_by_the_global_ranks_of_the_group(
    placement: Placement, group: int, ranks: list[int]
) -> None:
    plan = _plan(4, wide="row_wise")
    moved = move_to_group(plan, RankLayout(8, 2, placement), group, CPU)
    assert _table(moved, "wide").ranks == ranks
    # No device index on CPU: FBGEMM's optimizer wrapper refuses "cpu:0".
    assert [where for where, _, _ in _shards(moved, "wide")] == [f"rank:{r}/cpu" for r in ranks]
    # Largest first: large, middle, little, tiny go to positions 0, 1, 2, 3.
    assert [_table(moved, t).ranks for t in ("large", "middle", "little", "tiny")] == [[r] for r in ranks]


def test_moving_leaves_the_plan_and_its_sizes_alone() -> None:
    plan, again = _plan(4, wide="row_wise"), _plan(4, wide="row_wise")
    moved = move_to_group(plan, RankLayout(8, 2), 1, CPU)
    for table in TABLES:
        assert _shards(plan, table.name) == _shards(again, table.name)
        assert [s[1:] for s in _shards(moved, table.name)] == [s[1:] for s in _shards(plan, table.name)]


@pytest.mark.parametrize(
    ("placement", "devices"),
    [
        ("interleaved", ["rank:1/cuda:1", "rank:3/cuda:3", "rank:5/cuda:1", "rank:7/cuda:3"]),
        ("contiguous", ["rank:4/cuda:0", "rank:5/cuda:1", "rank:6/cuda:2", "rank:7/cuda:3"]),
    ],
)
def test_on_gpus_a_shard_is_on_its_ranks_own_device(
    placement: Placement, devices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts of four GPUs, group 1 of 2."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    model = torch.nn.Module()
    model.tables = embedding_collection(TABLES)
    cuda = torch.device("cuda")
    plan = plan_one_group(model, {t.name: "row_wise" for t in TABLES}, RankLayout(4), cuda)
    moved = move_to_group(plan, RankLayout(8, 2, placement), 1, cuda)
    assert [where for where, _, _ in _shards(moved, "wide")] == devices


def test_table_wise_tables_go_largest_first_to_the_least_loaded_rank() -> None:
    plan = _plan(2)
    # Bytes in units of a row: wide 100 -> 0; large 90 -> 1; middle 60 -> 1 (150); little 40 -> 0 (140);
    # tiny 30 -> 0 (170).
    assert {t.name: _table(plan, t.name).ranks for t in TABLES} == {
        "wide": [0],
        "large": [1],
        "middle": [1],
        "little": [0],
        "tiny": [0],
    }


def test_every_table_runs_on_the_fused_kernel() -> None:
    """The dense kernel, TorchRec's default on CPU, would leave the optimizer out of the backward."""
    plan = _plan(2, wide="row_wise")
    assert {_table(plan, t.name).compute_kernel for t in TABLES} == {"fused"}


def test_collections_are_found_by_their_path() -> None:
    outer = torch.nn.Module()
    outer.tower = torch.nn.Module()
    outer.tower.tables = embedding_collection(TABLES)
    assert list(embedding_collections(outer)) == ["tower.tables"]


def test_column_shards_are_placed_one_by_one_among_the_tables() -> None:
    plan = _plan(2, wide="column_wise")
    # 8 columns over two ranks are two shards of 4. In values: large 720 -> 0; middle 480 -> 1;
    # wide's shards 400 -> 1 (880) and 400 -> 0 (1120); little 320 -> 1 (1200); tiny 240 -> 0 (1360).
    assert _shards(plan, "wide") == [("rank:1/cpu", [0, 0], [100, 4]), ("rank:0/cpu", [0, 4], [100, 4])]
    others = {t.name: _table(plan, t.name).ranks for t in TABLES if t.name != "wide"}
    assert others == {"large": [0], "middle": [1], "little": [1], "tiny": [0]}


def test_moving_replaces_the_ranks_of_column_shards() -> None:
    moved = move_to_group(_plan(2, wide="column_wise"), RankLayout(4, 2), 1, CPU)
    assert _table(moved, "wide").ranks == [3, 1]
    assert [where for where, _, _ in _shards(moved, "wide")] == ["rank:3/cpu", "rank:1/cpu"]


def test_a_table_row_wise_table_is_split_over_the_ranks_of_one_host() -> None:
    plan = _plan(4, ranks_per_host=2, wide="table_row_wise", large="table_row_wise")
    # In values: wide 800 -> host 0; large 720 -> host 1.
    assert _shards(plan, "wide") == [("rank:0/cpu", [0, 0], [50, 8]), ("rank:1/cpu", [50, 0], [50, 8])]
    assert _shards(plan, "large") == [("rank:2/cpu", [0, 0], [45, 8]), ("rank:3/cpu", [45, 0], [45, 8])]
    # Ranks hold 400 400 360 360: middle 480 -> 2 (840); little 320 -> 3 (680); tiny 240 -> 0.
    others = {t: _table(plan, t).ranks for t in ("middle", "little", "tiny")}
    assert others == {"middle": [2], "little": [3], "tiny": [0]}


def test_a_grid_table_has_a_column_shard_a_host_and_its_rows_over_the_hosts_ranks() -> None:
    plan = _plan(4, ranks_per_host=2, wide="grid")
    assert _table(plan, "wide").sharding_type == "grid_shard"
    shards = dict.fromkeys(where for where, _, _ in _shards(plan, "wide"))
    assert sorted(shards) == [f"rank:{r}/cpu" for r in range(4)]
    assert [(offsets, sizes) for _, offsets, sizes in _shards(plan, "wide")] == [
        ([0, 0], [50, 4]),
        ([50, 0], [50, 4]),
        ([0, 4], [50, 4]),
        ([50, 4], [50, 4]),
    ]


def test_a_data_parallel_table_is_on_every_rank_and_not_fused() -> None:
    moved = move_to_group(_plan(2, tiny="data_parallel"), RankLayout(4, 2), 1, CPU)
    assert _table(moved, "tiny").ranks == [1, 3]
    assert _table(moved, "tiny").sharding_spec is None
    assert _table(moved, "tiny").compute_kernel == "dense"
