"""Initial tables: a function of (seed, table, row, column) and of nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
import torch

from reference_impl import initial_weights
from tests.helpers.training import SEED, TABLES, Case, Trained

LAYOUTS = [
    Case(1, "table_wise"),
    Case(2, "row_wise"),
    Case(2, "mixed", implementation="baseline_1d"),
    Case(4, "row_wise"),
    Case(4, "mixed", replica_groups=2, placement="contiguous"),
    Case(4, "table_wise", replica_groups=4),
]


MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def _mix(x: int) -> int:
    """splitmix64's finaliser, in pure Python."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def _expected(seed: int, table: str, rows: int, row: int, column: int) -> float:
    """The finaliser over (key of seed and table, row), and over that and the column; 24 bits of it."""
    key = int.from_bytes(hashlib.sha256(f"{seed}/{table}".encode()).digest()[:8], "little")
    bits = _mix((_mix((row * GOLDEN + key) & MASK) + column * GOLDEN) & MASK)
    return ((bits >> 40) / 2**24 * 2 - 1) / rows**0.5


def test_the_finaliser_is_splitmix64s() -> None:
    """splitmix64 of seed 0 is published to start with these two: finaliser of golden, 2 * golden."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
    states = [GOLDEN, 2 * GOLDEN & MASK]
    assert [_mix(state) for state in states] == published
    signed = torch.tensor([s - 2**64 if s >= 2**63 else s for s in states])
    assert [int(x) & MASK for x in initial_weights._mix(signed)] == published


@pytest.mark.parametrize(
    ("table", "rows", "row", "column"),
    [("users", 41, 0, 0), ("users", 41, 40, 7), ("rare", 7, 3, 2), ("big", 10**9, 987_654_321, 63)],
)
def test_values_equal_pure_python(table: str, rows: int, row: int, column: int) -> None:
    weight = torch.empty(1, 1)
    initial_weights.fill_(weight, SEED, table, rows, row, column)
    # One float32 product away from the float64 value.
    assert float(weight) == pytest.approx(_expected(SEED, table, rows, row, column), rel=1e-6)


def test_a_shard_holds_the_values_of_its_block_of_the_table() -> None:
    whole = torch.empty(50, 16)
    initial_weights.fill_(whole, 1, "t", 50)
    block = torch.empty(20, 4)
    initial_weights.fill_(block, 1, "t", 50, row_offset=13, column_offset=8)
    assert torch.equal(block, whole[13:33, 8:12])


def test_tables_larger_than_a_chunk_are_filled_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, chunked = torch.empty(50, 4), torch.empty(50, 4)
    initial_weights.fill_(whole, 1, "t", 50)
    monkeypatch.setattr(initial_weights, "_CHUNK_ROWS", 7)
    initial_weights.fill_(chunked, 1, "t", 50)
    assert torch.equal(chunked, whole)


def test_seed_and_table_name_each_change_every_value() -> None:
    def filled(seed: int, table: str) -> torch.Tensor:
        weight = torch.empty(100, 8)
        initial_weights.fill_(weight, seed, table, 100)
        return weight

    base = filled(1, "a")
    for other in (filled(2, "a"), filled(1, "b")):
        # 24-bit values: of 800, none is expected to coincide.
        assert (base == other).sum() <= 1


def test_values_are_uniform_in_the_bound() -> None:
    rows, dim = 10_000, 16
    weight = torch.empty(rows, dim)
    initial_weights.fill_(weight, 0, "t", rows)
    unit = weight.double() * rows**0.5
    assert unit.min() >= -1
    assert unit.max() < 1
    # Mean of n uniform values: standard deviation 1 / sqrt(3 n) = 0.0014; variance 1/3. Five of each.
    assert abs(float(unit.mean())) < 5 / (3 * unit.numel()) ** 0.5
    assert float(unit.var()) == pytest.approx(1 / 3, abs=0.005)
    # No column follows another, no row the next one: correlations of 10,000 values, five deviations.
    assert torch.corrcoef(unit.T).fill_diagonal_(0).abs().max() < 5 / rows**0.5
    assert abs(float((unit[1:] * unit[:-1]).mean()) * 3) < 5 / unit.numel() ** 0.5


@pytest.mark.parametrize("case", LAYOUTS, ids=str)
def test_real_tables_do_not_depend_on_world_size_groups_or_sharding(
    case: Case, trained: Callable[[Case], list[Trained]]
) -> None:
    for rank in trained(case):
        for table in TABLES:
            expected = torch.empty(table["rows"], table["dim"])
            initial_weights.fill_(expected, SEED, table["name"], table["rows"])
            assert torch.equal(rank.initial[f"table.{table['name']}"], expected)


def test_dense_layers_do_not_depend_on_world_size_groups_or_sharding(
    trained: Callable[[Case], list[Trained]],
) -> None:
    first, *others = (rank.initial for case in LAYOUTS for rank in trained(case))
    dense = [name for name in first if name.startswith("dense.")]
    assert dense
    assert all(torch.equal(other[name], first[name]) for other in others for name in dense)
