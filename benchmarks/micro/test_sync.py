"""What a rank works out in a replica sync, apart from the exchange: the group has one member."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from pytest_benchmark.fixture import BenchmarkFixture

from reference_impl.shards import TableShard
from reference_impl.sync.delayed import DelayedMomentsSync
from reference_impl.sync.immediate import DenseSync

TABLES, ROWS, DIM = 8, 20_000, 64


@pytest.fixture(scope="module")
def alone() -> Iterator[dist.ProcessGroup]:
    """A process group of this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    assert dist.group.WORLD is not None
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("strategy", [DenseSync, DelayedMomentsSync])
def test_averaging(
    strategy: type[DenseSync | DelayedMomentsSync], alone: dist.ProcessGroup, benchmark: BenchmarkFixture
) -> None:
    """Eight tables of 20,000 x 64 with a moment a row: 41 MB."""
    shards = [
        TableShard(f"t{i}", ROWS, 0, 0, torch.ones(ROWS, DIM), (torch.ones(ROWS),)) for i in range(TABLES)
    ]
    benchmark(strategy(shards, alone).average)
