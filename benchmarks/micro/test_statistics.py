"""The intervals and verdicts of a comparison."""

from __future__ import annotations

import random

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from suite.statistics import judge_noisy, median_interval, rank_sum_cut


@pytest.mark.parametrize("launches", [5, 20])
def test_judging_a_noisy_metric(launches: int, benchmark: BenchmarkFixture) -> None:
    """Two sides of 5 and of 20 launches."""
    values = random.Random(0)
    before, after = ([values.gauss(100, 3) for _ in range(launches)] for _ in range(2))
    benchmark(judge_noisy, before, after, "lower", 0.05, 0.05)


def test_rank_sum_distribution(benchmark: BenchmarkFixture) -> None:
    """Of 30 and 30 samples."""
    assert benchmark(rank_sum_cut, 30, 30, 0.05) > 0


def test_interval_of_a_median(benchmark: BenchmarkFixture) -> None:
    """Of 50 launches."""
    assert benchmark(median_interval, [float(i) for i in range(50)]) is not None
