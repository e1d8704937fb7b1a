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
#: On the wrong side of these a model has learnt nothing, and there is nothing to compare.
FLOORS = {"auc": 0.51, "normalized_entropy": 0.999}


def quality(labels: np.ndarray, scores: np.ndarray, split: str) -> QualityRecord:
    """Quality of click probabilities.

    Args:
        labels: 0 or 1, shape [B], B at least 1.
        scores: predicted probabilities in [0, 1], shape [B].
        split: name of the evaluation split, for the record.

    Returns:
        ``log_loss`` in nats a sample, averaged over samples; ``normalized_entropy``, which divides it
        by the entropy of always predicting the base rate (1 = nothing learnt, lower is better);
        ``calibration``, mean score over base rate (1 = calibrated). With one class only there is no
        ranking and no entropy: ``auc`` and ``normalized_entropy`` are None; with no click at all
        ``calibration`` is None too.

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
    entropy = 0.0 if one_class else -sum(p * math.log(p) for p in (base_rate, 1 - base_rate))
    return QualityRecord(
        split=split,
        samples=int(labels.size),
        base_rate=base_rate,
        auc=None if one_class else float(roc_auc_score(labels, scores)),
        log_loss=loss,
        normalized_entropy=None if one_class else loss / entropy,
        calibration=float(scores.mean()) / base_rate if base_rate else None,
    )


def _of(field: str) -> Callable[[RunSpec, LaunchRecord], float | None]:
    value = attrgetter(field)
    return lambda _, launch: None if launch.quality is None else value(launch.quality)


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
)
