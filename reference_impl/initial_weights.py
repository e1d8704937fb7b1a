"""Initial table weights as a function of (seed, table, row, column), whatever holds the row.

So 1D and 2D, table-wise and row-wise, and every world size start from the same tables, and each rank can
fill its own shards without a broadcast.
"""

from __future__ import annotations

import hashlib

import torch

#: Rows filled at a time: bounds the scratch memory for tables of any size.
_CHUNK_ROWS = 65_536


def fill_(
    weight: torch.Tensor, seed: int, table: str, table_rows: int, row_offset: int = 0, column_offset: int = 0
) -> None:
    """Fills a shard in place with uniform values in [-a, a), a = 1 / sqrt(table_rows), TorchRec's default.

    Args:
        weight: the shard, shape [rows, columns].
        seed: of the run.
        table: the table's name.
        table_rows: rows of the whole table.
        row_offset: the table row that the shard's first row is.
        column_offset: the table column that the shard's first column is.
    """
    bound = table_rows**-0.5
    key = int.from_bytes(hashlib.sha256(f"{seed}/{table}".encode()).digest()[:8], "little", signed=True)
    columns = torch.arange(weight.shape[1], device=weight.device) + column_offset
    for start in range(0, weight.shape[0], _CHUNK_ROWS):
        part = weight[start : start + _CHUNK_ROWS]
        rows = torch.arange(part.shape[0], device=weight.device) + (row_offset + start)
        bits = _mix(_mix(rows * _GOLDEN + key).unsqueeze(1) + columns * _GOLDEN)
        # The top 24 bits are what a float32 can hold exactly.
        uniform = _logical_shift(bits, 40).to(torch.float32) * 2.0**-24
        part.copy_((uniform * 2 - 1) * bound)


# The finaliser of splitmix64 (Steele, Lea, Flood 2014), on int64 that wraps round.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64


def _logical_shift(x: torch.Tensor, n: int) -> torch.Tensor:
    return (x >> n) & ((1 << (64 - n)) - 1)


def _mix(x: torch.Tensor) -> torch.Tensor:
    x = (x ^ _logical_shift(x, 30)) * _FIRST
    x = (x ^ _logical_shift(x, 27)) * _SECOND
    return x ^ _logical_shift(x, 31)
