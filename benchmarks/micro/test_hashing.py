"""Hashing a workload, and making initial weights, which are a hash of their place."""

from __future__ import annotations

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from reference_impl.initial_weights import fill_
from suite.catalog import load_workload
from suite.spec import WorkloadSpec


@pytest.mark.parametrize("name", ["smoke", "dlrm_dcnv2_criteo"])
def test_spec_hash(name: str, benchmark: BenchmarkFixture) -> None:
    """Of four tables and of 26."""
    spec: WorkloadSpec = load_workload(name)
    assert len(benchmark(lambda: spec.spec_hash)) == 16


def test_initial_weights(benchmark: BenchmarkFixture) -> None:
    """Of 100,000 x 64."""
    benchmark(fill_, torch.empty(100_000, 64), 0, "user", 100_000)
