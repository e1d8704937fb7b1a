"""How well the trained model predicts clicks on the evaluation split."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

from suite.metrics.base import Metric
from suite.record import LaunchRecord, QualityRecord
from suite.spec import RunSpec

if TYPE_CHECKING:
    import numpy as np

#: A difference of quality that does not matter in practice: 0.1 points of AUC or of entropy.
MARGIN = 0.001
#: Two-sided 95 % quantile of the normal distribution.
NORMAL_95 = 1.959964
#: On the wrong side of these a model has learnt nothing, and there is nothing to compare.
FLOORS = {"auc": 0.51, "normalized_entropy": 0.999}


def quality(labels: np.ndarray, scores: np.ndarray, split: str) -> QualityRecord:
    """Quality of click probabilities.

    Args:
        labels: 0 or 1, shape [B], B at least 1.
        scores: predicted probabilities in [0, 1], shape [B].
        split: name of the evaluation split, for the record.

    Returns:
        ``auc_low`` and ``auc_high``, see ``auc_interval``; ``log_loss`` in nats a sample, averaged over
        samples; ``normalized_entropy``, which divides it by the entropy of always predicting the base
        rate (1 = nothing learnt, lower is better); ``calibration``, mean score over base rate (1 =
        calibrated). With one class only there is no ranking and no entropy: ``auc`` and
        ``normalized_entropy`` are None; with no click at all ``calibration`` is None too.

    Raises:
        ValueError: no samples, unlike lengths, or a score that is not a finite probability.
    """
    # Takes two seconds to import, and only ranks that evaluate need it.
    from sklearn.metrics import log_loss, roc_auc_score

    labels, scores = labels.astype("float64"), scores.astype("float64")
    if labels.ndim != 1 or labels.shape != scores.shape or labels.size == 0:
        raise ValueError(
            f"labels of shape {labels.shape} and scores of shape {scores.shape} do not go together"
        )
    if not bool(((scores >= 0) & (scores <= 1)).all()):
        raise ValueError("scores are not probabilities in [0, 1]: the model diverged")
    base_rate = float(labels.mean())
    one_class = base_rate in (0.0, 1.0)
    loss = float(log_loss(labels, scores, labels=[0.0, 1.0]))
    auc = None if one_class else float(roc_auc_score(labels, scores))
    low, high = (None, None) if auc is None else auc_interval(labels, scores, auc)
    entropy = 0.0 if one_class else -sum(p * math.log(p) for p in (base_rate, 1 - base_rate))
    return QualityRecord(
        split=split,
        samples=int(labels.size),
        base_rate=base_rate,
        auc=auc,
        auc_low=low,
        auc_high=high,
        log_loss=loss,
        normalized_entropy=None if one_class else loss / entropy,
        calibration=float(scores.mean()) / base_rate if base_rate else None,
    )


def auc_interval(
    labels: np.ndarray, scores: np.ndarray, auc: float
) -> tuple[float, float] | tuple[None, None]:
    """95 % interval of an AUC over evaluation samples, cut off at 0 and 1.

    E. DeLong, D. DeLong, Clarke-Pearson (Biometrics 44, 1988): a click's placement is the share of non-clicks
    below it, a tie counting half, and the other way round; the variance of the AUC is that of the placements
    of each class over its size, added up. By ranks, after Sun and Xu (IEEE Signal Processing Letters 21,
    2014). No library that this project would rely on has it.

    Args:
        labels: 0 or 1, both there, shape [B].
        scores: shape [B].
        auc: theirs.

    Returns:
        Lower and upper end; None where a class has one sample only, or where the variance is 0, at an AUC of
        0 or 1 or with all scores alike: an interval without width would claim that nothing can vary.
    """
    from scipy.stats import rankdata

    clicks, others = scores[labels == 1], scores[labels == 0]
    if min(len(clicks), len(others)) < 2:
        return None, None
    ranks = rankdata(scores)
    of_clicks = (ranks[labels == 1] - rankdata(clicks)) / len(others)
    of_others = (ranks[labels == 0] - rankdata(others)) / len(clicks)
    variance = of_clicks.var(ddof=1) / len(clicks) + of_others.var(ddof=1) / len(others)
    if variance == 0:
        return None, None
    half = NORMAL_95 * math.sqrt(variance)
    return max(0.0, auc - half), min(1.0, auc + half)


def _of(field: str) -> Callable[[RunSpec, LaunchRecord], float | None]:
    value = attrgetter(field)
    return lambda _, launch: None if launch.quality is None else value(launch.quality)


def _calibration_error(_: RunSpec, launch: LaunchRecord) -> float | None:
    found = None if launch.quality is None else launch.quality.calibration
    return None if found is None else abs(found - 1)


METRICS = (
    Metric("auc", "", "higher", True, _of("auc"), margin=MARGIN, floor=FLOORS["auc"]),
    Metric(
        "normalized_entropy",
        "",
        "lower",
        True,
        _of("normalized_entropy"),
        margin=MARGIN,
        floor=FLOORS["normalized_entropy"],
    ),
    Metric("log_loss", "nats/sample", "lower", True, _of("log_loss"), margin=MARGIN),
    # How far the mean score is from the base rate, as a share of it.
    Metric("calibration_error", "", "lower", True, _calibration_error, margin=MARGIN, role="figure"),
)
