"""Is the quality of an arm that of the baseline? Judged over paired seeds, by an equivalence test.

Both arms of a seed train on the same samples in the same order from the same initial weights, so that the
difference of a seed holds what the arms do and little of what the seed does. The seed is the sample.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal, Self

from suite.metrics.base import Direction
from suite.metrics.quality import FLOORS
from suite.quality.library import TrainingResult
from suite.spec import Frozen, ParitySpec
from suite.statistics import Verdict, anything_learnt, equivalence_seeds, judge_paired, t_interval

QualityMetric = Literal["auc", "normalized_entropy"]
METRICS: tuple[QualityMetric, ...] = ("auc", "normalized_entropy")
#: Share of judgements of two equal arms that the number of seeds asked for would find equivalent.
POWER = 0.9


class Estimate(Frozen):
    """A mean over seeds and its 95 % t interval; ``low`` and ``high`` are None with one seed."""

    mean: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, per_seed: Sequence[float]) -> Self:
        """The estimate of these values, one a seed."""
        mean, low, high = t_interval(per_seed) if len(per_seed) > 1 else (per_seed[0], None, None)
        return cls.model_validate(
            {"mean": mean, "low": low, "high": high}
            | ({"per_seed": tuple(per_seed)} if "per_seed" in cls.model_fields else {})
        )


class ArmEstimate(Estimate):
    """One metric of one arm, and its value for each seed, in the order of ``seeds``."""

    per_seed: tuple[float, ...]


class CurvePoint(Frozen):
    """AUC after so many training samples."""

    samples: int
    auc: Estimate


class Arm(Frozen):
    """What one arm came to."""

    replica_groups: int
    optimizer: str
    learning_rate: float
    auc: ArmEstimate
    normalized_entropy: ArmEstimate
    curve: tuple[CurvePoint, ...]
    #: Training samples until the AUC reached the target, the median over seeds; None if some seed never did.
    samples_to_target: float | None


class Check(Frozen):
    """One metric's verdict. ``difference`` is arm - baseline; ``margin`` is in the metric's own unit."""

    metric: QualityMetric
    margin: float
    difference: Estimate
    verdict: Verdict
    reason: str
    #: False where neither side is better than a model that knows the base rate alone.
    learnt: bool
    #: Paired seeds with which two equal arms would be found equivalent 9 times of 10, at the spread seen.
    seeds_needed: int | None


class Parity(Frozen):
    """The verdict, and what it rests on."""

    verdict: Verdict
    #: The metric that decided it, its margin and its difference.
    metric: QualityMetric
    margin: float
    difference: Estimate
    #: Metrics of which these seeds can say nothing, though the verdict stands.
    undecided: tuple[QualityMetric, ...]
    checks: tuple[Check, ...]
    arms: dict[str, Arm]
    seeds: tuple[int, ...]
    target_auc: float
    #: Samples to the target, candidate over baseline: the geometric mean over seeds and its 95 % t interval.
    #: None where some seed of a side never reached it.
    samples_ratio: Estimate | None


def judge(
    baseline: Sequence[TrainingResult],
    arm: Sequence[TrainingResult],
    goal: ParitySpec,
    target_auc: float | None = None,
) -> Parity:
    """Judges the arm against the baseline, seed by seed.

    The verdict is that of the goal's metric, unless the arm is worse in the other one, or both arms have
    learnt nothing by it. Entropy is far noisier over seeds than AUC, so that asking for equivalence in both
    would take several times the seeds; where it is in doubt, ``undecided`` says so.

    Args:
        baseline, arm: one training a seed, the same seeds in the same order.
        goal: the margins, fixed beforehand.
        target_auc: for samples_to_target; left out it is the baseline's final mean less ten margins.

    Raises:
        ValueError: the seeds differ, or the evaluation split holds one class only.
    """
    seeds = tuple(result.training.seed for result in baseline)
    if seeds != tuple(result.training.seed for result in arm):
        raise ValueError("the arms were not trained with the same seeds")
    checks = tuple(_check(metric, seeds, baseline, arm, goal) for metric in METRICS)
    first = next(check for check in checks if check.metric == goal.metric)
    decided = next(
        (check for check in checks if check.verdict == "worse"),
        next((check for check in checks if not check.learnt), first),
    )
    one_d = values(baseline, "auc")
    target = default_target(one_d, goal) if target_auc is None else target_auc
    return Parity(
        verdict=decided.verdict,
        metric=decided.metric,
        margin=decided.margin,
        difference=decided.difference,
        undecided=tuple(
            check.metric for check in checks if check.verdict == "inconclusive" and check is not decided
        ),
        checks=checks,
        arms={"baseline": _arm(baseline, target), "candidate": _arm(arm, target)},
        seeds=seeds,
        target_auc=target,
        samples_ratio=_samples_ratio(baseline, arm, target),
    )


def _samples_ratio(
    baseline: Sequence[TrainingResult], arm: Sequence[TrainingResult], target: float
) -> Estimate | None:
    logarithms = []
    for one, two in zip(baseline, arm, strict=True):
        before, after = _samples_to(one, target), _samples_to(two, target)
        if not before or not after:
            return None
        logarithms.append(math.log(after / before))
    return geometric(logarithms)


def geometric(logarithms: Sequence[float]) -> Estimate:
    """The geometric mean of ratios and its interval, from the logarithms of the ratios."""
    found = Estimate.of(logarithms)
    low, high = (None if x is None else math.exp(x) for x in (found.low, found.high))
    return Estimate(mean=math.exp(found.mean), low=low, high=high)


def default_target(baseline_auc: Sequence[float], goal: ParitySpec) -> float:
    """The AUC that samples to target are counted to: the baseline's final mean less ten margins."""
    return statistics.fmean(baseline_auc) - 10 * goal.auc_margin


def _check(
    metric: QualityMetric,
    seeds: tuple[int, ...],
    baseline: Sequence[TrainingResult],
    arm: Sequence[TrainingResult],
    goal: ParitySpec,
) -> Check:
    before, after = values(baseline, metric), values(arm, metric)
    margin = goal.auc_margin
    if metric == "normalized_entropy":
        margin = goal.normalized_entropy_margin * statistics.fmean(before)
    direction: Direction = "higher" if metric == "auc" else "lower"
    judged = judge_paired(
        dict(zip(seeds, before, strict=True)),
        dict(zip(seeds, after, strict=True)),
        direction,
        margin,
        FLOORS[metric],
    )
    differences = [b - a for a, b in zip(before, after, strict=True)]
    return Check(
        metric=metric,
        margin=margin,
        difference=Estimate.of(differences),
        verdict=judged.verdict,
        reason=judged.reason,
        learnt=anything_learnt(
            (statistics.median(before), statistics.median(after)), FLOORS[metric], direction
        ),
        seeds_needed=equivalence_seeds(differences, margin, POWER),
    )


def _arm(results: Sequence[TrainingResult], target: float) -> Arm:
    training = results[0].training
    return Arm(
        replica_groups=training.replica_groups,
        optimizer=training.optimizer.name,
        learning_rate=training.optimizer.learning_rate,
        auc=ArmEstimate.of(values(results, "auc")),
        normalized_entropy=ArmEstimate.of(values(results, "normalized_entropy")),
        curve=tuple(
            CurvePoint(
                samples=points[0].samples, auc=Estimate.of([_known(p.quality.auc, "auc") for p in points])
            )
            for points in zip(*(result.curve for result in results), strict=True)
        ),
        samples_to_target=samples_to_target(results, target),
    )


def samples_to_target(results: Sequence[TrainingResult], target: float) -> float | None:
    """Training samples until the AUC reached a target, the median over seeds; None if some seed never did."""
    reached = [_samples_to(result, target) for result in results]
    return None if None in reached else statistics.median(x for x in reached if x is not None)


def _samples_to(result: TrainingResult, target: float) -> float | None:
    """Where the learning curve first crosses the target, straight between its points, from AUC 0.5 at 0."""
    before = (0.0, 0.5)
    for point in result.curve:
        here = (float(point.samples), _known(point.quality.auc, "auc"))
        if here[1] >= target:
            share = (target - before[1]) / (here[1] - before[1]) if here[1] > before[1] else 0.0
            return before[0] + max(0.0, share) * (here[0] - before[0])
        before = here
    return None


def values(results: Sequence[TrainingResult], metric: QualityMetric) -> list[float]:
    """The metric after the last step, one a training.

    Raises:
        ValueError: the evaluation split holds one class only.
    """
    return [_known(getattr(result.quality, metric), metric) for result in results]


def _known(value: float | None, metric: str) -> float:
    if value is None:
        raise ValueError(f"the evaluation split holds one class only: it has no {metric}")
    return value
