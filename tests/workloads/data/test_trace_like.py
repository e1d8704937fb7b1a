"""The statistics of trace-like ids: skew, reuse, bag sizes; and the published histogram of reuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from suite.catalog import load_workload
from suite.data import open_source
from suite.samples_check import check_samples
from suite.spec import TableSpec
from tests.helpers.workloads import rows_of, tiny_workload
from workloads.data.counter_random import key
from workloads.data.synthetic import zipf_rank
from workloads.data.trace_like import PUBLISHED_REUSE, TraceLikeClicks, reuse_histogram

SOURCE = "workloads.data.trace_like:TraceLikeClicks"
ROWS = 10_000


def table(pooling_factor: float = 1.0, name: str = "t") -> TableSpec:
    return TableSpec(name=name, rows=ROWS, dim=4, features=(name,), pooling_factor=pooling_factor)


def opened(*tables: TableSpec, seed: int = 0, **options: Any) -> TraceLikeClicks:
    source = open_source(tiny_workload(SOURCE, tables or (table(),), **options), seed)
    assert isinstance(source, TraceLikeClicks)
    return source


def ids(count: int, **options: Any) -> np.ndarray:
    return opened(**options).train(0, count).sparse["t"][0]


def test_a_sample_is_a_function_of_seed_and_index_alone() -> None:
    tables = (table(2.5, "bag"), table(0.4, "optional"), table())
    whole = rows_of(opened(*tables, window=16).train(0, 60))
    for start, stop in ((40, 60), (0, 15), (15, 40)):
        assert rows_of(opened(*tables, window=16).train(start, stop)) == whole[start:stop]
    assert rows_of(opened(*tables, window=16, seed=1).train(0, 60)) != whole


def test_samples_keep_the_contract() -> None:
    workload = load_workload("ctr_zipf")
    source = open_source(workload, 0)
    check_samples(source.train(4_000, 4_300), workload, 300)
    check_samples(source.train(7, 7), workload, 0)
    check_samples(source.evaluation(0, 100), workload, 100)


@pytest.mark.parametrize("reuse", [0.0, 0.5])
def test_skew_is_the_power_law_with_and_without_reuse(reuse: float) -> None:
    """Over many windows; the share of the hottest 1, 10, 100 and 1,000 rows against the law itself."""
    options = {"reuse": reuse, "zipf_exponent": 1.1, "zipf_spread": 0.0, "window": 64, "working_set": 64}
    drawn = np.sort(np.bincount(ids(200_000, **options), minlength=ROWS))[::-1].cumsum() / 200_000
    law = np.bincount(zipf_rank((np.arange(10**6) + 0.5) / 10**6, ROWS, 1.1), minlength=ROWS).cumsum() / 10**6
    for hottest in (1, 10, 100, 1_000):
        # Independent draws have a standard error of at most 0.0011; an id of a working set counts about
        # 1 + 64 * 0.25 / 64 = 1.25 times. Sorting by what was drawn adds a little in the tail.
        assert drawn[hottest - 1] == pytest.approx(law[hottest - 1], abs=0.01)


def test_every_table_has_its_own_exponent_within_the_spread() -> None:
    tables = [table(name=f"t{i}") for i in range(200)]
    exponents = [opened(zipf_exponent=0.9, zipf_spread=0.3).zipf_exponent(t) for t in tables]
    assert 0.6 <= min(exponents) < 0.63
    assert 1.17 < max(exponents) <= 1.2
    # The mean of 200 uniform numbers: standard error 0.3 / sqrt(3 * 200) = 0.012; four of them.
    assert np.mean(exponents) == pytest.approx(0.9, abs=0.05)
    assert opened(zipf_exponent=0.1, zipf_spread=1.0).zipf_exponent(tables[0]) >= 0


def test_a_window_reuses_its_working_set_and_no_other() -> None:
    """Without skew, so that nothing else makes ids come again: 500 samples a window, 50 ids in its set."""
    options = {"reuse": 1.0, "zipf_exponent": 0.0, "zipf_spread": 0.0, "window": 500, "working_set": 50}
    drawn = ids(5_000, **options).reshape(10, 500)
    sets = [set(window.tolist()) for window in drawn]
    assert all(40 <= len(s) <= 50 for s in sets)
    # 50 of 10,000 rows twice: 0.25 rows in common are expected.
    assert all(len(a & b) <= 3 for i, a in enumerate(sets) for b in sets[:i])


@pytest.mark.parametrize("reuse", [0.0, 0.3, 0.8])
def test_reuse_is_the_share_of_ids_that_come_from_the_working_set(reuse: float) -> None:
    """Two ids of a window agree with probability reuse^2 / working set, plus 1 / rows by chance."""
    options = {"reuse": reuse, "zipf_exponent": 0.0, "zipf_spread": 0.0, "window": 1_000, "working_set": 20}
    drawn = ids(40_000, **options).reshape(40, 1_000)
    counts = np.stack([np.bincount(window, minlength=ROWS) for window in drawn])
    agree = (counts * (counts - 1)).sum(1) / (1_000 * 999)
    # Windows are independent: five standard errors of the mean over the 40 of them.
    error = 5 * agree.std() / 40**0.5
    assert agree.mean() == pytest.approx(reuse**2 / 20 + 1 / ROWS, abs=error)


@pytest.mark.parametrize("mean", [2.0, 3.5, 12.0])
def test_bags_are_geometric_with_the_pooling_factor_as_mean(mean: float) -> None:
    _, lengths = opened(table(mean)).train(0, 40_000).sparse["t"]
    q = mean / (1 + mean)
    # Five standard errors; the variance of a geometric size is q / (1 - q)^2 = mean * (1 + mean).
    assert lengths.mean() == pytest.approx(mean, abs=5 * (mean * (1 + mean) / 40_000) ** 0.5)
    for n in (0, 1, round(mean), 3 * round(mean)):
        share = (lengths >= n).mean()
        assert share == pytest.approx(q**n, abs=5 * (0.25 / 40_000) ** 0.5)


def test_one_hot_and_optional_features() -> None:
    assert set(opened(table(1.0)).train(0, 500).sparse["t"][1].tolist()) == {1}
    assert set(opened(table(0.4)).train(0, 500).sparse["t"][1].tolist()) == {0, 1}


def test_the_histogram_of_a_hand_worked_case() -> None:
    """Rows looked up 1, 1, 2, 3, 4 and 20,000 times: 20,011 lookups."""
    shares = reuse_histogram(np.array([1, 1, 2, 0, 3, 4, 20_000]))
    assert shares[1] == 2 / 20_011
    assert shares[2] == 2 / 20_011
    assert shares[4] == 7 / 20_011
    assert shares[float("inf")] == 20_000 / 20_011
    assert sum(shares.values()) == pytest.approx(1.0)


def test_reuse_of_ctr_zipf_is_that_of_a_published_production_trace() -> None:
    """One batch of 65,536 samples at row_factor 10: 7.9 million ids."""
    workload = load_workload("ctr_zipf,row_factor=10")
    source = open_source(workload, 0)
    assert isinstance(source, TraceLikeClicks)
    counts = []
    for one in workload.tables:
        drawn, _ = source._ids(key(source._train, one.features[0]), np.arange(65_536), one)
        counts.append(np.bincount(drawn))
    ours = np.cumsum(list(reuse_histogram(np.concatenate(counts)).values()))
    published = np.cumsum(list(PUBLISHED_REUSE.values()))
    # It is 0.047. Without reuse it would be 0.12, and 0.20 with an exponent of 1.05 in the middle.
    assert np.abs(ours - published).max() < 0.06
