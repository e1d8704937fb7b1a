from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from suite.metrics import METRICS
from suite.metrics.quality import quality
from tests.helpers.records import failed_launch, make_launch, make_record


def test_auc_counts_a_tie_as_half():
    # Pairs (click, no click): 0.8>0.2, 0.8>0.5, 0.5>0.2, 0.5=0.5: three and a half of four.
    labels, scores = np.array([1, 1, 0, 0]), np.array([0.8, 0.5, 0.5, 0.2])
    assert quality(labels, scores, "test").auc == pytest.approx(3.5 / 4)


def test_equals_sklearn_on_scores_full_of_ties():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 2000).astype(np.float32)
    scores = (np.round(rng.random(2000) * 8 + labels) / 10).astype(np.float32)
    found = quality(labels, scores, "test")
    assert found.auc == roc_auc_score(labels, scores.astype(np.float64))
    assert found.log_loss == log_loss(labels, scores.astype(np.float64))
    assert 0.5 < found.auc < 1


def test_predicting_the_base_rate_has_normalized_entropy_and_calibration_one():
    labels = np.array([1, 0, 0, 0])
    found = quality(labels, np.full(4, 0.25), "test")
    assert found.normalized_entropy == pytest.approx(1)
    assert found.calibration == pytest.approx(1)
    assert found.log_loss == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))
    assert (found.samples, found.base_rate, found.split) == (4, 0.25, "test")


def test_the_interval_of_an_auc_is_that_of_a_bootstrap():
    rng = np.random.default_rng(0)
    labels = (rng.random(3000) < 0.2).astype(np.float64)
    scores = np.round(np.clip(rng.normal(0.4 + 0.15 * labels, 0.2), 0, 1), 2)  # with ties
    found = quality(labels, scores, "test")
    drawn = (rng.integers(0, 3000, 3000) for _ in range(150))
    aucs = [roc_auc_score(labels[i], scores[i]) for i in drawn]
    # A standard deviation over 150 draws is known within 6 %; four of them.
    assert (found.auc_high - found.auc_low) / (2 * 1.96) == pytest.approx(np.std(aucs), rel=0.24)
    assert (found.auc_low + found.auc_high) / 2 == pytest.approx(found.auc)


def test_the_interval_of_a_hand_worked_auc():
    # Placements of clicks 1, 3/4 (0.5 ties with one of two), of the others too: variance 1/32 each, over 2.
    found = quality(np.array([1, 1, 0, 0]), np.array([0.8, 0.5, 0.5, 0.2]), "test")
    half = 1.959964 * math.sqrt(2 * (1 / 32) / 2)
    assert found.auc_low == pytest.approx(0.875 - half)
    assert found.auc_high == 1  # cut off


@pytest.mark.parametrize(
    ("scores", "auc"), [([0.8, 0.7, 0.5, 0.2], 1), ([0.2, 0.5, 0.7, 0.8], 0), ([0.3] * 4, 0.5)]
)
def test_where_nothing_varied_there_is_no_interval(scores, auc):
    found = quality(np.array([1, 1, 0, 0]), np.array(scores), "test")
    assert (found.auc, found.auc_low, found.auc_high) == (auc, None, None)


def test_one_click_has_no_interval():
    found = quality(np.array([1, 0, 0]), np.array([0.8, 0.5, 0.2]), "test")
    assert (found.auc, found.auc_low, found.auc_high) == (1, None, None)


def test_calibration_is_mean_score_over_base_rate():
    assert quality(np.array([1, 0]), np.array([0.9, 0.3]), "test").calibration == pytest.approx(0.6 / 0.5)


def test_the_calibration_error_is_how_far_from_one_it_is():
    launch = make_launch(0)
    assert launch.quality is not None
    high = launch.model_copy(update={"quality": launch.quality.model_copy(update={"calibration": 0.75})})
    none = launch.model_copy(update={"quality": launch.quality.model_copy(update={"calibration": None})})
    assert METRICS["calibration_error"].values(make_record([high, none])) == [0.25]


@pytest.mark.parametrize(("label", "calibration"), [(0, None), (1, 0.4)])
def test_one_class_has_no_ranking_and_no_entropy(label, calibration):
    found = quality(np.full(3, label), np.full(3, 0.4), "test")
    assert (found.auc, found.normalized_entropy) == (None, None)
    assert found.log_loss == pytest.approx(-math.log(0.4 if label else 0.6))
    assert found.calibration == (None if calibration is None else pytest.approx(calibration))


@pytest.mark.parametrize(
    ("labels", "scores"),
    [
        (np.zeros(0), np.zeros(0)),
        (np.zeros(2), np.zeros(3)),
        (np.zeros((2, 1)), np.zeros((2, 1))),
        (np.array([0, 1]), np.array([0.5, np.nan])),
        (np.array([0, 1]), np.array([0.5, 1.5])),
    ],
)
def test_refuses_what_is_not_labels_and_probabilities(labels, scores):
    with pytest.raises(ValueError, match=r"do not go together|not probabilities"):
        quality(labels, scores, "test")


def test_a_launch_without_evaluation_has_no_quality():
    launches = [make_launch(0).model_copy(update={"quality": None}), failed_launch(1), make_launch(2)]
    assert METRICS["auc"].values(make_record(launches)) == [0.75]
    assert METRICS["normalized_entropy"].values(make_record(launches)) == [0.9]
