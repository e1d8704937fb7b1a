"""Finding a rank's shards inside TorchRec's modules, and putting whole tables together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.helpers.distributed import World
from tests.helpers.training import TABLES, Case

ROWS = {t["name"]: t["rows"] for t in TABLES}


def _number_the_values(case: Case) -> dict:
    """Job: numbers the values of the tables, see ``_weights`` and ``_moments``."""
    from suite.implementation import implementation_class

    model: Any = implementation_class(case.implementation)(case.run_spec(), torch.device("cpu"))
    for shard in model.shards:
        height, width = shard.weight.shape
        rows = slice(shard.row_offset, shard.row_offset + height)
        columns = slice(shard.column_offset, shard.column_offset + width)
        shard.weight.detach().copy_(_weights(shard.rows)[rows, columns])
        for state in shard.states:
            if state.dim() == 1:
                state.copy_(_moments(shard.rows, 8)[rows, shard.column_offset])
            else:
                state.copy_(_moments(shard.rows, 8)[rows, columns])
    gathered = model.gather_weights()
    return {
        "where": [(s.table, s.row_offset, s.column_offset, tuple(s.weight.shape)) for s in model.shards],
        "rows": {s.table: s.rows for s in model.shards},
        "gathered": {name: tensor for name, tensor in gathered.items() if not name.startswith("dense.")},
        "bytes": model.parameter_bytes(),
    }


def _weights(rows: int) -> torch.Tensor:
    """Row r, column c holds r + 100 c."""
    return torch.arange(rows).unsqueeze(1) + 100.0 * torch.arange(8)


def _moments(rows: int, columns: int) -> torch.Tensor:
    """Row r of a shard that starts at column c holds 10 r + c."""
    return 10.0 * torch.arange(rows).unsqueeze(1) + torch.arange(columns)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("sharding", ["table_wise", "row_wise", "mixed"])
def test_whole_tables_come_back_from_the_shards(
    sharding: str, groups: int, world: Callable[[int], World]
) -> None:
    for rank in world(4).run(_number_the_values, Case(4, sharding, replica_groups=groups)):
        assert rank["gathered"].keys() == {f"{kind}.{name}" for name in ROWS for kind in ("table", "moment")}
        for name, rows in ROWS.items():
            assert torch.equal(rank["gathered"][f"table.{name}"], _weights(rows))
            assert torch.equal(rank["gathered"][f"moment.{name}"], _moments(rows, 1)[:, 0])


@pytest.mark.parametrize("sharding", ["column_wise", "column_shards_together"])
def test_columns_come_back_in_order_and_moments_a_column_shard(
    sharding: str, world: Callable[[int], World]
) -> None:
    """Two ranks a group: 8 columns are two shards, which start at columns 0 and 4."""
    for rank in world(4).run(_number_the_values, Case(4, sharding, replica_groups=2)):
        assert torch.equal(rank["gathered"]["table.rare"], _weights(7))
        assert torch.equal(rank["gathered"]["moment.rare"], _moments(7, 5)[:, [0, 4]])


def test_on_one_rank_columns_are_whole_and_so_are_moments(world: Callable[[int], World]) -> None:
    for rank in world(2).run(_number_the_values, Case(2, "column_wise", replica_groups=2)):
        assert torch.equal(rank["gathered"]["moment.rare"], _moments(7, 1)[:, 0])


@pytest.mark.parametrize("sharding", ["mixed", "column_wise"])
def test_a_moment_an_element_comes_back_like_the_weights(
    sharding: str, world: Callable[[int], World]
) -> None:
    for rank in world(2).run(_number_the_values, Case(2, sharding, optimizer="adagrad")):
        for name, rows in ROWS.items():
            assert torch.equal(rank["gathered"][f"moment.{name}"], _moments(rows, 8))


def test_sgd_has_no_moments(world: Callable[[int], World]) -> None:
    for rank in world(2).run(_number_the_values, Case(2, "mixed", optimizer="sgd")):
        assert rank["gathered"].keys() == {f"table.{name}" for name in ROWS}
        assert rank["bytes"]["embedding_optimizer_state"] == 0


def test_row_wise_blocks_are_uneven_where_the_rows_are(world: Callable[[int], World]) -> None:
    """41 rows over four ranks: ceil(41 / 4) = 11 rows each, and 8 for the last."""
    ranks = world(4).run(_number_the_values, Case(4, "row_wise"))
    assert [[w for w in rank["where"] if w[0] == "users"] for rank in ranks] == [
        [("users", 0, 0, (11, 8))],
        [("users", 11, 0, (11, 8))],
        [("users", 22, 0, (11, 8))],
        [("users", 33, 0, (8, 8))],
    ]
    assert all(rank["rows"] == ROWS for rank in ranks)


def test_replicas_find_their_shards_in_the_same_order(world: Callable[[int], World]) -> None:
    """The sync averages them position by position."""
    ranks = world(4).run(_number_the_values, Case(4, "mixed", replica_groups=2))
    assert ranks[0]["where"] == ranks[1]["where"]
    assert ranks[2]["where"] == ranks[3]["where"]
    assert ranks[0]["where"] != ranks[2]["where"]


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_bytes_are_those_of_the_groups_copy(groups: int, world: Callable[[int], World]) -> None:
    """Every group holds all tables once: 101 rows of 8 float32, and one float32 moment a row."""
    ranks = world(4).run(_number_the_values, Case(4, "mixed", replica_groups=groups))
    held = [rank["bytes"] for rank in ranks]
    assert sum(b["embedding_weights"] for b in held) == groups * 101 * 8 * 4
    assert sum(b["embedding_optimizer_state"] for b in held) == groups * 101 * 4
    # Dense: 4 x 16 + 16, 16 x 8 + 8; 23 x 16 + 16 (8 + 15 pairs of 6 vectors), 16 x 8 + 8, 8 x 1 + 1.
    assert {b["dense_parameters"] for b in held} == {(80 + 136 + 384 + 136 + 9) * 4}
