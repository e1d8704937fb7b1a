"""Results of trainings that nobody trained, with the quality that a test wants."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from suite.catalog import load_workload
from suite.quality.library import Point, TrainingResult
from suite.quality.spec import Training
from suite.record import QualityRecord

#: Options of an experiment.
BEGUN = {"verb": "parity", "workload": "small", "seeds": 2}


def result(seed: int, aucs: Sequence[float], entropy: float = 0.8, groups: int = 1) -> TrainingResult:
    """One training with this learning curve, a point every 100 samples."""
    return result_of(_training(seed, groups, len(aucs)), aucs, entropy)


@functools.cache
def _training(seed: int, groups: int, steps: int) -> Training:
    return Training(
        workload=load_workload("smoke"),
        replica_groups=groups,
        global_batch=100,
        steps=steps,
        curve_points=steps,
        seed=seed,
    )


def result_of(training: Training, aucs: Sequence[float], entropy: float = 0.8) -> TrainingResult:
    """The same for given settings."""
    curve = tuple(
        Point(
            samples=100 * (i + 1),
            quality=QualityRecord(
                split="evaluation",
                samples=1000,
                base_rate=0.5,
                auc=auc,
                log_loss=0.5,
                normalized_entropy=entropy,
                calibration=1.0,
            ),
        )
        for i, auc in enumerate(aucs)
    )
    return TrainingResult(training=training, curve=curve, last_loss=0.5)
