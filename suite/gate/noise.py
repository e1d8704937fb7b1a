"""One noisy metric, base against head: a first look at all, a second at what looked different.

A gate judges some thirty noisy metrics, and fails when any of them is worse. Asked at 5 % each it would cry
wolf at every other change that changes nothing; asked at 5 % over all thirty, a few launches could tell
nothing at all. So it looks twice:

1. All metrics, over the first launches. One is *suspicious* when it differs by more than its margin and the
   one-sided rank-sum test gives that less than 5 %. It condemns nothing.
2. Suspicious ones again, over fresh launches alone, which the suspicion has not seen. With k of them, each
   must be beyond its margin again, on the same side, and below 1 % / k (Bonferroni).

Where both sides are the same, launches are exchangeable, and the second look calls any of its k metrics
worse with probability 1 % at most, however they were chosen: the first look used other launches. So a false
alarm happens in at most 1 % of gates, and in fact in 1 % of those that had a suspicion to begin with.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

from suite.metrics.base import Direction
from suite.statistics import Judgement, Verdict, rank_sum_cut, rank_sum_tail

#: Chance that a gate of equal sides calls anything worse.
FALSE_ALARM = 0.01
#: Of one metric at the first look.
SUSPICION = 0.05
#: Two-sided level of the interval that must lie inside the margin: two one-sided tests at 5 %.
_EQUIVALENCE = 0.10


def first_look(
    before: Sequence[float], after: Sequence[float], direction: Direction, margin: float
) -> tuple[Judgement, bool]:
    """Judges the first launches.

    Args:
        before, after: one value a launch, all positive.
        direction: which way is better.
        margin: the share of the value that does not matter.

    Returns:
        The judgement (``equivalent`` or ``inconclusive``), and whether a second look is due.
    """
    side, tail = _difference(before, after, direction, margin)
    band = f"{margin:.1%} either way, over {len(before)} and {len(after)} launches"
    low, high = _interval(before, after)
    if low is not None and high is not None and 1 / (1 + margin) <= low and high <= 1 + margin:
        reason = f"the interval lies inside the margin ({band})."
        return _judgement(before, after, "equivalent", reason), False
    if side is None:
        reason = f"no difference beyond the margin was seen, nor ruled out ({band})."
        return _judgement(before, after, "inconclusive", reason), False
    if tail > SUSPICION:
        reason = f"{side} by more than the margin, as noise often is ({band}; chance {tail:.2g})."
        return _judgement(before, after, "inconclusive", reason), False
    reason = f"looks {side} ({band}; chance {tail:.2g}), which only fresh launches can settle."
    return _judgement(before, after, "inconclusive", reason), True


def second_look(
    before: Sequence[float], after: Sequence[float], direction: Direction, margin: float, suspects: int
) -> Judgement:
    """Judges fresh launches of a metric that looked different. ``suspects``: how many metrics did."""
    side, tail = _difference(before, after, direction, margin)
    band = f"{margin:.1%}, over {len(before)} and {len(after)} fresh launches"
    if side is None:
        reason = f"looked different, and again it is not beyond the margin ({band})."
        return _judgement(before, after, "inconclusive", reason)
    if tail > FALSE_ALARM / suspects:
        reason = f"looked different, and the rerun cannot tell it from noise ({band}; chance {tail:.2g})."
        return _judgement(before, after, "inconclusive", reason)
    return _judgement(before, after, side, f"{side} beyond the margin, and again ({band}; {tail:.2g}).")


def only_look(
    before: Sequence[float], after: Sequence[float], direction: Direction, margin: float, judged: int
) -> Judgement:
    """Judges launches that cannot be made again, at 1 % over all ``judged`` noisy metrics together."""
    found, suspicious = first_look(before, after, direction, margin)
    side, tail = _difference(before, after, direction, margin)
    if not suspicious or side is None or tail > FALSE_ALARM / judged:
        return found
    band = f"{margin:.1%}, over {len(before)} and {len(after)} launches"
    return _judgement(before, after, side, f"{side} beyond the margin and noise ({band}; {tail:.2g}).")


def fresh_launches(suspects: int, asked: int) -> int:
    """Launches a side for the second look: what was asked for, or more where k suspects need it."""
    n = asked
    while 1 / math.comb(2 * n, n) > FALSE_ALARM / suspects:
        n += 1
    return n


def _difference(
    before: Sequence[float], after: Sequence[float], direction: Direction, margin: float
) -> tuple[Literal["better", "worse"] | None, float]:
    """On which side of the margin the medians' ratio lies, and the chance of that among equal sides."""
    one, other = statistics.median(before), statistics.median(after)
    loss = other / one if direction == "lower" else one / other
    if loss > 1 + margin:
        return "worse", rank_sum_tail(before, after, direction)
    if loss < 1 / (1 + margin):
        return "better", rank_sum_tail(before, after, "higher" if direction == "lower" else "lower")
    return None, 1.0


def _interval(before: Sequence[float], after: Sequence[float]) -> tuple[float | None, float | None]:
    """The Hodges-Lehmann interval of after / before; nothing where there are too few launches."""
    cut = rank_sum_cut(len(before), len(after), _EQUIVALENCE)
    if cut == 0:
        return None, None
    ratios = sorted(a / b for a in after for b in before)
    return ratios[cut - 1], ratios[-cut]


def _judgement(before: Sequence[float], after: Sequence[float], verdict: Verdict, reason: str) -> Judgement:
    low, high = _interval(before, after)
    one, other = statistics.median(before), statistics.median(after)
    return Judgement(
        before=one, after=other, ratio=other / one, low=low, high=high, verdict=verdict, reason=reason
    )
