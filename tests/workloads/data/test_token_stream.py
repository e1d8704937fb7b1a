"""A planted language: its frequencies, its rule, and the AUC that the rule gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from suite.catalog import load_workload
from suite.data import open_source, source_class
from suite.errors import ConfigError
from suite.samples_check import check_samples
from suite.spec import BatchSpec, DataSpec, ModelSpec, TableSpec, WorkloadSpec
from tests.helpers.workloads import rows_of
from workloads.data.synthetic import scattered, zipf_rank
from workloads.data.token_stream import TokenStream, best_auc

ROWS, CLASSES = 4_000, 8


def workload(rows: int = ROWS, features: int = 2, dense: int = 0, **options: Any) -> WorkloadSpec:
    return WorkloadSpec(
        name="text",
        model=ModelSpec(factory="unused:unused", dense_features=dense),
        tables=(TableSpec(name="t", rows=rows, dim=4, features=("c", "n", "x")[:features], pooling="none"),),
        data=DataSpec(source="workloads.data.token_stream:TokenStream", options=options),
        batch=BatchSpec(global_size=8, per_rank=4),
    )


def opened(seed: int = 0, **options: Any) -> TokenStream:
    source = open_source(workload(**options), seed)
    assert isinstance(source, TokenStream)
    return source


def hotness_of(ids: np.ndarray) -> np.ndarray:
    """Undoes the scattering: hottest of class 0, of class 1, ..., second of class 0, ..."""
    order = np.empty(ROWS, np.int64)
    order[scattered(np.arange(ROWS), ROWS)] = np.arange(ROWS)
    return order[ids]


def test_a_sample_is_a_function_of_seed_and_index_alone() -> None:
    whole = rows_of(opened().train(0, 60))
    for start, stop in ((40, 60), (0, 15), (15, 40)):
        assert rows_of(opened().train(start, stop)) == whole[start:stop]
    assert rows_of(opened(seed=1).train(0, 60)) != whole
    assert rows_of(opened(seed=1).evaluation(0, 60)) == rows_of(opened().evaluation(0, 60))


def test_samples_keep_the_contract() -> None:
    spec = load_workload("lm_vocabulary")
    source = open_source(spec, 0)
    check_samples(source.train(100, 400), spec, 300)
    check_samples(source.train(3, 3), spec, 0)
    check_samples(source.evaluation(0, 50), spec, 50)


@pytest.mark.parametrize("predictability", [0.0, 0.9])
def test_tokens_are_as_frequent_in_text_as_in_noise(predictability: float) -> None:
    """So a candidate's frequency alone gives nothing away."""
    samples = opened(predictability=predictability).train(0, 50_000)
    hotness = hotness_of(samples.sparse["n"][0])
    law = np.bincount(zipf_rank((np.arange(10**6) + 0.5) / 10**6, ROWS // CLASSES, 1.05)) / 10**6
    for label in (0, 1):
        found = hotness[samples.labels == label]
        # Five standard errors of a share over 25,000 samples are at most 0.016.
        assert np.bincount(found % CLASSES) / len(found) == pytest.approx(np.full(CLASSES, 1 / 8), abs=0.016)
        assert (found // CLASSES == 0).mean() == pytest.approx(law[0], abs=0.016)
        assert (found // CLASSES < 10).mean() == pytest.approx(law[:10].sum(), abs=0.016)


def test_text_follows_the_rule_with_the_stated_probability() -> None:
    source = opened(predictability=0.7)
    samples = source.train(0, 20_000)
    context = hotness_of(samples.sparse["c"][0]).reshape(-1, 4) % CLASSES
    follows = source.follows[context[:, :-1]] == context[:, 1:]
    # 0.7 + 0.3 / 8; five standard errors over 60,000 pairs.
    assert follows.mean() == pytest.approx(0.7375, abs=0.009)


@pytest.mark.parametrize(("predictability", "classes"), [(0.9, 8), (0.5, 2), (0.0, 8)])
def test_the_rule_scores_the_stated_auc(predictability: float, classes: int) -> None:
    source = opened(predictability=predictability, classes=classes)
    samples = source.train(0, 40_000)
    context = hotness_of(samples.sparse["c"][0]).reshape(-1, 4) % classes
    candidate = hotness_of(samples.sparse["n"][0]) % classes
    scores = source.follows[context[:, -1]] == candidate
    # Standard error of an AUC over 40,000 samples: at most 0.0029; four of them.
    assert roc_auc_score(samples.labels, scores) == pytest.approx(
        best_auc(predictability, classes), abs=0.0116
    )


def test_the_record_states_it() -> None:
    assert opened(predictability=0.9).describe()["bayes_auc"] == pytest.approx(0.89375)
    assert opened(eval_samples=0).describe()["base_rate"] is None


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"rows": 7}, "tables.t.rows"),
        ({"rows": 2**31 + 1}, "tables.t.rows"),
        ({"features": 1}, "tables"),
        ({"features": 3}, "tables"),
        ({"dense": 2}, "model.dense_features"),
        ({"classes": 1}, "data.options.classes"),
        ({"predictability": 1.5}, "data.options.predictability"),
        ({"context": 0}, "data.options.context"),
        ({"words": 3}, "data.options.words"),
    ],
)
def test_what_it_cannot_write_is_refused(wrong: dict[str, Any], field: str) -> None:
    spec = workload(**wrong)
    with pytest.raises(ConfigError) as caught:
        source_class(spec).check(spec)
    assert caught.value.report.field == field


def test_a_location_is_refused() -> None:
    spec = load_workload("lm_vocabulary", location="/tmp")
    with pytest.raises(ConfigError) as caught:
        source_class(spec).check(spec)
    assert caught.value.report.field == "data.location"
