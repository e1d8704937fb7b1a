from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from suite.catalog import load_workload
from suite.data import DataSource, Samples, open_source, source_class
from suite.errors import ConfigError
from suite.samples_check import check_samples
from suite.spec import TableSpec, WorkloadSpec
from tests.helpers.workloads import rows_of, tiny_workload
from workloads.data.synthetic import expected_auc, scattered, zipf_rank

SOURCE = "workloads.data.synthetic:SyntheticClicks"


def opened(seed: int = 0, tables: tuple[TableSpec, ...] | None = None, **options: Any) -> DataSource:
    return open_source(tiny_workload(SOURCE, tables, **options), seed)


def test_slices_are_the_stream_in_any_order() -> None:
    source = opened()
    whole = rows_of(source.train(0, 100))
    slices = {start: rows_of(opened().train(start, start + 20)) for start in (80, 0, 60, 20, 40)}
    assert [row for start in sorted(slices) for row in slices[start]] == whole
    assert rows_of(source.train(20, 40)) == whole[20:40]


def test_samples_keep_the_contract() -> None:
    workload = tiny_workload(SOURCE)
    source = open_source(workload, 0)
    check_samples(source.train(10_000, 11_000), workload, 1_000)
    check_samples(source.train(5, 5), workload, 0)
    check_samples(source.evaluation(0, source.evaluation_size), workload, source.evaluation_size)


def test_the_run_seed_decides_training_and_not_evaluation() -> None:
    one, other = opened(seed=1), opened(seed=2)
    assert rows_of(one.train(0, 50)) != rows_of(other.train(0, 50))
    assert rows_of(one.evaluation(0, 50)) == rows_of(other.evaluation(0, 50))
    assert one.describe() == other.describe()


def test_evaluation_samples_are_not_training_samples() -> None:
    source = opened(seed=0, teacher_seed=0)
    train, evaluation = rows_of(source.train(0, 1_000)), rows_of(source.evaluation(0, 1_000))
    assert not set(train) & set(evaluation)


def test_the_teacher_seed_decides_evaluation_and_not_the_training_ids() -> None:
    one, other = opened(teacher_seed=1), opened(teacher_seed=2)
    assert rows_of(one.evaluation(0, 50)) != rows_of(other.evaluation(0, 50))
    trained = one.train(0, 500), other.train(0, 500)
    assert (trained[0].sparse["tags"][0] == trained[1].sparse["tags"][0]).all()
    assert (trained[0].labels != trained[1].labels).any()


def test_every_feature_draws_on_its_own() -> None:
    tables = (TableSpec(name="shared", rows=1_000, dim=4, features=("one", "two")),)
    drawn = opened(tables=tables).train(0, 100)
    assert (drawn.sparse["one"][0] != drawn.sparse["two"][0]).any()


@pytest.mark.parametrize(("factor", "allowed"), [(1.0, {1}), (3.0, {3}), (2.25, {2, 3}), (0.5, {0, 1})])
def test_pooling_factor_is_the_mean_number_of_ids(factor: float, allowed: set[int]) -> None:
    tables = (TableSpec(name="t", rows=9, dim=4, features=("t",), pooling_factor=factor),)
    _, lengths = opened(tables=tables).train(0, 20_000).sparse["t"]
    assert set(lengths.tolist()) == allowed
    # Standard error at most 0.5 / sqrt(20,000) = 0.0035; five of them.
    assert lengths.mean() == pytest.approx(factor, abs=0.018)


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 1.05, 2.0])
def test_ids_follow_the_power_law(exponent: float) -> None:
    rows, count = 50, 200_000
    drawn = zipf_rank((np.arange(count) + 0.5) / count, rows, exponent)
    # Rank r has the mass of x ** -exponent between r + 1 and r + 2, here by 2,000 midpoints an interval.
    grid = 1 + (np.arange(rows * 2_000) + 0.5) / 2_000
    mass = (grid**-exponent).reshape(rows, 2_000).sum(axis=1)
    # Evenly spaced draws put each boundary between ranks within one draw of its place.
    assert np.bincount(drawn, minlength=rows) / count == pytest.approx(mass / mass.sum(), abs=2 / count)


def test_hot_rows_are_hot_in_the_stream() -> None:
    tables = (TableSpec(name="t", rows=10_000, dim=4, features=("t",)),)
    share = {}
    for exponent in (0.0, 1.05):
        ids, _ = opened(tables=tables, zipf_exponent=exponent).train(0, 20_000).sparse["t"]
        share[exponent] = np.sort(np.bincount(ids, minlength=10_000))[-100:].sum() / len(ids)
    # The hottest 1 % of rows: by the law 54 % of all ids; without skew little above 1 % (the luckiest 100).
    assert share[1.05] == pytest.approx(0.54, abs=0.02)
    assert share[0.0] < 0.05


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100, 943, 2**16])
def test_scattering_is_one_to_one(rows: int) -> None:
    assert sorted(scattered(np.arange(rows), rows)) == list(range(rows))


def test_scattering_spreads_hot_rows_over_the_table() -> None:
    hottest = scattered(np.arange(64), 2**20)
    assert np.bincount(hottest * 8 // 2**20, minlength=8).min() >= 6


def test_largest_table_stays_in_range() -> None:
    tables = (TableSpec(name="t", rows=2**31, dim=4, features=("t",)),)
    ids, _ = opened(tables=tables, zipf_exponent=0.5).train(0, 10_000).sparse["t"]
    assert ids.min() >= 0
    assert 2**30 < ids.max() < 2**31


def test_expected_auc_of_a_hand_worked_case() -> None:
    # Clicks of probability 0.2, 0.6, 0.9. Pairs (click, other): weights p_i (1 - p_j), won where p_i > p_j.
    won = 0.6 * 0.8 + 0.9 * 0.8 + 0.9 * 0.4
    lost = 0.2 * 0.4 + 0.2 * 0.1 + 0.6 * 0.1
    assert expected_auc(np.array([0.6, 0.2, 0.9])) == pytest.approx(won / (won + lost))


def test_expected_auc_is_the_mean_over_draws_of_the_labels() -> None:
    random = np.random.default_rng(0)
    probabilities = random.random(2_000) ** 2
    drawn = [roc_auc_score(random.random(2_000) < probabilities, probabilities) for _ in range(20)]
    # Five standard errors of the mean.
    assert np.mean(drawn) == pytest.approx(expected_auc(probabilities), abs=5 * np.std(drawn) / 20**0.5)


def test_expected_auc_without_two_classes() -> None:
    assert expected_auc(np.ones(5)) is None
    assert expected_auc(np.empty(0)) is None


def test_the_stated_auc_can_be_reached_and_not_beaten() -> None:
    tables = (
        TableSpec(name="one", rows=20, dim=4, features=("one",)),
        TableSpec(name="bag", rows=30, dim=4, features=("bag",), pooling_factor=2.5),
    )
    source = opened(tables=tables, eval_samples=10_000)

    def inputs(samples: Samples) -> np.ndarray:
        counts = [samples.dense]
        for table in tables:
            ids, lengths = samples.sparse[table.name]
            sample = np.repeat(np.arange(len(lengths)), lengths)
            counts.append(np.zeros((len(lengths), table.rows)))
            np.add.at(counts[-1], (sample, ids), 1)
        return np.concatenate(counts, axis=1)

    # The teacher is linear in the counts of ids, so logistic regression finds it.
    train, evaluation = source.train(0, 10_000), source.evaluation(0, 10_000)
    model = LogisticRegression(max_iter=100).fit(inputs(train), train.labels)
    auc = roc_auc_score(evaluation.labels, model.predict_proba(inputs(evaluation))[:, 1])
    # Standard error of an AUC of 0.87 over 10,000 samples: 0.0035; three of them, and 0.004 for the fit.
    assert auc == pytest.approx(source.describe()["bayes_auc"], abs=0.0145)


def test_signal_0_leaves_nothing_to_learn() -> None:
    facts = opened(signal=0.0, bias=0.0, eval_samples=10_000).describe()
    assert facts["bayes_auc"] == pytest.approx(0.5, abs=1e-3)
    assert facts["base_rate"] == pytest.approx(0.5, abs=0.025)  # five standard errors


def test_no_evaluation_split() -> None:
    source = opened(eval_samples=0)
    assert source.evaluation_size == 0
    assert source.describe()["bayes_auc"] is None


def test_fingerprint_follows_the_data() -> None:
    fingerprint = opened().describe()["fingerprint"]
    assert opened(seed=9).describe()["fingerprint"] == fingerprint
    assert opened(signal=3.0).describe()["fingerprint"] != fingerprint
    assert opened(teacher_seed=1).describe()["fingerprint"] != fingerprint


def test_the_stream_of_a_named_workload_is_pinned() -> None:
    # A change here makes new records incomparable with old ones, and needs a reason.
    facts = open_source(load_workload("smoke"), 0).describe()
    assert facts["fingerprint"] == "2c1f770d29c56ece7414bd0f3cfe5c124e6ad9ce26af2fc7c9c7c6e35487a3c0"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("zipf_exponent", -1),
        ("zipf_exponent", "steep"),
        ("signal", -1),
        ("eval_samples", -1),
        ("eval_samples", 1.5),
        ("teacher_seed", -1),
        ("zipf", 1.0),
    ],
)
def test_a_wrong_option_is_named(name: str, value: Any) -> None:
    refused(tiny_workload(SOURCE, **{name: value}), f"data.options.{name}")


def test_a_location_is_refused() -> None:
    refused(load_workload("smoke", location="/tmp"), "data.location")


def test_a_table_too_large_is_refused() -> None:
    tables = (TableSpec(name="huge", rows=2**31 + 1, dim=4, features=("huge",)),)
    refused(tiny_workload(SOURCE, tables), "tables.huge.rows")


def refused(workload: WorkloadSpec, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        source_class(workload).check(workload)
    assert caught.value.report.field == field


def test_the_teacher_drifts_until_nothing_is_left_of_it() -> None:
    drift = 50_000
    tables = (TableSpec(name="user", rows=40, dim=4, features=("user",)),)

    def clicks(samples: Samples) -> np.ndarray:
        """Share of clicks of each row."""
        ids = samples.sparse["user"][0]
        return np.bincount(ids, samples.labels, 40) / np.maximum(1, np.bincount(ids, minlength=40))

    def likeness(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.corrcoef(one, other)[0, 1])

    options = {"zipf_exponent": 0.0, "signal": 3.0, "eval_samples": 8_000}
    still = opened(tables=tables, **options)
    drifting = {at: opened(tables=tables, drift_samples=drift, eval_at=at, **options) for at in (0, drift)}
    assert rows_of(drifting[0].evaluation(0, 100)) == rows_of(still.evaluation(0, 100))
    first = clicks(still.evaluation(0, 8_000))
    last = clicks(drifting[drift].evaluation(0, 8_000))
    # 200 samples a row: shares of clicks are known within 0.035, and spread by 0.3 over the rows.
    assert likeness(first, clicks(drifting[0].train(0, 8_000))) > 0.9
    assert likeness(last, clicks(drifting[0].train(drift, drift + 8_000))) > 0.9
    assert abs(likeness(first, last)) < 0.6  # 40 rows: independent ones stay below it in 9,999 of 10,000
    half = clicks(
        opened(tables=tables, drift_samples=drift, eval_at=drift // 2, **options).evaluation(0, 8_000)
    )
    assert likeness(first, half) > 0.4
    assert likeness(last, half) > 0.4
