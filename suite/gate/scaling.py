"""Efficiency over world sizes, and 2D over 1D, against thresholds.

Ranks that share a core take turns: four on two cores are half as fast each, whatever the layout. Such a
point ``did_not_run``, and says why.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.gate.findings import Finding, finding, unmeasured
from suite.gate.plan import ScalingPlan, Threshold
from suite.gate.regression import Side
from suite.metrics import METRICS
from suite.session import SWEEP_1D
from suite.statistics import ALPHA, Judgement, Verdict, rank_sum_cut

_SPEED = METRICS["samples_per_s"]


@dataclass(frozen=True)
class Point:
    """One configuration of the sweep."""

    scaling: str
    world_size: int
    replica_groups: int

    @property
    def name(self) -> str:
        """As rows and logs have it: ``weak T=2 M=2``."""
        return f"{self.scaling} T={self.world_size} M={self.replica_groups}"


def points(plan: ScalingPlan) -> list[Point]:
    """All that must be measured, each once: what has a threshold, and what that is compared with."""
    found: dict[Point, None] = {}
    for threshold in plan.thresholds:
        for _, one, other in _ratios(plan, threshold):
            found |= {one: None, other: None}
    return list(found)


def too_many(point: Point, cores: int) -> str | None:
    """Why a point says nothing by wall clock on so many cores; None where it does."""
    if point.world_size <= cores:
        return None
    return f"{point.world_size} ranks on {cores} cores take turns: wall clock says nothing about scaling."


def judge(plan: ScalingPlan, sides: Mapping[str, Side], not_run: Mapping[str, str]) -> list[Finding]:
    """A row for each threshold.

    Args:
        plan: the thresholds.
        sides: what was measured, by the name of its point.
        not_run: why others were not, by the name of their point.
    """
    rows = []
    for threshold in plan.thresholds:
        for name, one, other in _ratios(plan, threshold):
            least = getattr(threshold, name)
            missing = next((why for p in (other, one) if (why := _missing(p, sides, not_run))), None)
            if missing is not None:
                judged = unmeasured("did_not_run", missing).model_copy(update={"before": least})
            else:
                judged = _judge(least, one, other, sides, name)
            rows.append(finding("scaling", other.name, name, "", "higher", judged, plan.policy))
    return rows


def suspicious(rows: Sequence[Finding], plan: ScalingPlan) -> list[Point]:
    """What must be measured again before its rows are called worse."""
    worse = {(row.configuration, row.name) for row in rows if row.verdict == "worse"}
    found: dict[Point, None] = {}
    for threshold in plan.thresholds:
        for name, one, other in _ratios(plan, threshold):
            if (other.name, name) in worse:
                found |= {one: None, other: None}
    return list(found)


def implementation_of(point: Point, given: str | None) -> str | None:
    """1D is TorchRec's own, as in a sweep."""
    return SWEEP_1D if point.replica_groups == 1 else given


def _ratios(plan: ScalingPlan, threshold: Threshold) -> list[tuple[str, Point, Point]]:
    """What a threshold asks for: the name, the point it is relative to, the point it is about."""
    point = Point(threshold.scaling, threshold.world_size, threshold.replica_groups)
    found = []
    if threshold.efficiency is not None:
        found.append(("efficiency", Point(threshold.scaling, plan.reference, 1), point))
    if threshold.of_1d is not None:
        found.append(("of_1d", Point(point.scaling, point.world_size, 1), point))
    return found


def _missing(point: Point, sides: Mapping[str, Side], not_run: Mapping[str, str]) -> str | None:
    if point.name in not_run:
        return not_run[point.name]
    side = sides.get(point.name, Side())
    if side.failures:
        return f"{point.name}: {side.failures[0].message}"
    if not side.records:
        return f"{point.name} has no record."
    flags = {flag for record in side.records for flag in record.environment.flags}
    if "oversubscribed" in flags:
        return f"{point.name} ran oversubscribed: wall clock says nothing about scaling."
    return None


def _judge(least: float, one: Point, other: Point, sides: Mapping[str, Side], name: str) -> Judgement:
    per = (other.world_size / one.world_size) if name == "efficiency" else 1.0
    slow, fast = ([v for r in sides[p.name].records for v in _SPEED.values(r)] for p in (one, other))
    ratios = sorted(b / a / per for a in slow for b in fast)
    cut = rank_sum_cut(len(slow), len(fast), ALPHA)
    middle = statistics.median(fast) / statistics.median(slow) / per
    low, high = (ratios[cut - 1], ratios[-cut]) if cut else (None, None)
    verdict: Verdict = "inconclusive"
    over = f"over {len(slow)} and {len(fast)} launches"
    if low is None or high is None:
        reason = f"{over} nothing can be told from noise."
    elif low >= least:
        verdict, reason = "equivalent", f"the interval reaches {least:g}, {over}."
    elif high < least:
        verdict, reason = "worse", f"{middle:.3f} is below {least:g} and beyond noise, {over}."
    else:
        reason = f"the interval [{low:.3f}, {high:.3f}] holds the threshold {least:g}, {over}."
    return Judgement(
        before=least, after=middle, ratio=middle / least, low=low, high=high, verdict=verdict, reason=reason
    )
