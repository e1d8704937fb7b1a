"""Statistics over launches: an interval for one side, a verdict on two.

The launch is the sample: steps of one launch share its processes, its memory layout and its luck, so
they are never pooled. With few launches nothing may be assumed about the distribution, hence:

* One side: the interval of the median between two order statistics. Its confidence is exact and
  follows from the number of launches alone (6 launches: 97 %; 3 launches: 75 %), and is stated.
* Two sides, noisy metric: all ratios after / before, cut off at both ends where the rank-sum
  distribution says (the Hodges-Lehmann interval). It excludes 1 exactly where the two-sided rank-sum
  test rejects, and it does not exist at all below a number of launches that is then named.
* Two sides, deterministic metric: exact, seed by seed.
* Two sides, quality of models trained in unlike ways: a t interval over paired seeds. Equivalence takes
  an interval inside the margin; failing to find a difference is not equivalence.

All intervals of a comparison are two-sided, so that equivalence is judged more strictly than two
one-sided tests at the same level would.
"""

from __future__ import annotations

import bisect
import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from suite.metrics.base import Direction
from suite.spec import Frozen

Verdict = Literal["better", "worse", "equivalent", "inconclusive", "incomparable", "did_not_run"]

#: Chance of a false verdict that is accepted, over all noisy metrics of one comparison together.
ALPHA = 0.05


class Interval(Frozen):
    """A median and where it may lie. ``low``, ``high`` and ``confidence`` are None with one launch."""

    median: float
    low: float | None = None
    high: float | None = None
    confidence: float | None = None


class Judgement(Frozen):
    """The verdict on one metric. ``ratio`` is after / before; ``low`` and ``high`` bound it."""

    before: float | None
    after: float | None
    ratio: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    reason: str


def median_interval(values: Sequence[float]) -> Interval | None:
    """The median with the narrowest order-statistic interval of at least 95 % confidence.

    Where there are too few launches for 95 %, the whole range with the smaller confidence it has.
    None for no values.
    """
    if not values:
        return None
    ordered = sorted(values)
    n = len(ordered)
    median = statistics.median(ordered)
    if n == 1:
        return Interval(median=median)
    # P(the median lies below the k-th smallest) = P(Binomial(n, 1/2) < k).
    tails = [sum(math.comb(n, i) for i in range(k)) / 2**n for k in range(1, n // 2 + 1)]
    k = max((k for k, tail in enumerate(tails, start=1) if 2 * tail <= ALPHA), default=1)
    return Interval(median=median, low=ordered[k - 1], high=ordered[n - k], confidence=1 - 2 * tails[k - 1])


def rank_sum_cut(n: int, m: int, alpha: float) -> int:
    """How many of the n * m ordered pairs the interval at level ``alpha`` leaves out at each end, plus one.

    The largest c with 2 * P(U <= c - 1) <= alpha, U being the rank-sum statistic of n and m samples of
    one distribution; 0 where there are too few samples for this alpha.
    """
    counts = _orderings(n, m)
    total, below, cut = math.comb(n + m, n), 0, 0
    while 2 * (below + counts[cut]) <= alpha * total:
        below += counts[cut]
        cut += 1
    return cut


def rank_sum_tail(before: Sequence[float], after: Sequence[float], direction: Direction) -> float:
    """Chance that equal sides look as bad for ``after`` as these do: the one-sided exact rank-sum test.

    Equal values count against a difference. 1 / C(n + m, n) where every value of ``after`` is worse than
    every one of ``before``, which is the least that n and m launches can give.
    """
    sign = 1 if direction == "lower" else -1
    against = sum(sign * (a - b) <= 0 for a in after for b in before)
    counts = _orderings(len(before), len(after))
    return sum(counts[: against + 1]) / sum(counts)


@functools.cache
def _orderings(n: int, m: int) -> tuple[int, ...]:
    """In how many of the C(n + m, n) orderings of two samples the rank-sum statistic is 0, 1, ..., n * m."""
    # Coefficients of the Gaussian binomial: the number of orderings with each value of U.
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for u in range(n * m, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, n * m + 1):
            counts[u] += counts[u - i]
    return tuple(counts)


def launches_needed(alpha: float) -> int:
    """Launches a side from which on the rank-sum test can reject at all at level ``alpha``."""
    n = 1
    while rank_sum_cut(n, n, alpha) == 0:
        n += 1
    return n


def judge_noisy(
    before: Sequence[float], after: Sequence[float], direction: Direction, margin: float, alpha: float
) -> Judgement:
    """Two sets of launches of a noisy, positive metric; ``margin`` is a share of the value.

    A difference counts when it is larger than the margin and unlikely to be noise.
    """
    middle = statistics.median(before), statistics.median(after)
    ratio = middle[1] / middle[0]
    cut = rank_sum_cut(len(before), len(after), alpha)
    if cut == 0:
        needed = launches_needed(alpha)
        return Judgement(
            before=middle[0],
            after=middle[1],
            ratio=ratio,
            low=None,
            high=None,
            verdict="inconclusive",
            reason=f"{len(before)} and {len(after)} launches cannot tell a difference from noise; "
            f"it takes {needed} a side.",
        )
    ratios = sorted(a / b for a in after for b in before)
    low, high = ratios[cut - 1], ratios[-cut]
    verdict, reason = _against_margin(ratio, low, high, 1 / (1 + margin), 1, 1 + margin, direction)
    return Judgement(
        before=middle[0],
        after=middle[1],
        ratio=ratio,
        low=low,
        high=high,
        verdict=verdict,
        reason=f"{reason} ({margin:.0%} either way), over {len(before)} and {len(after)} launches.",
    )


def judge_exact(before: Mapping[int, float], after: Mapping[int, float], direction: Direction) -> Judgement:
    """A deterministic metric, one value for each seed, seeds in common only: any difference counts.

    Worse with one seed is worse.
    """
    seeds = sorted(before.keys() & after.keys())
    middle = _medians(before, after, seeds)
    gains = [(after[s] - before[s]) * (1 if direction == "higher" else -1) for s in seeds]
    verdict: Verdict = "equivalent"
    if any(gains):
        verdict = "worse" if min(gains) < 0 else "better"
    return Judgement(
        before=middle[0],
        after=middle[1],
        ratio=middle[1] / middle[0] if middle[0] else None,
        low=None,
        high=None,
        verdict=verdict,
        reason="deterministic, and equal to the last bit."
        if verdict == "equivalent"
        else "deterministic, so that every difference counts.",
    )


def judge_paired(
    before: Mapping[int, float],
    after: Mapping[int, float],
    direction: Direction,
    margin: float,
    floor: float | None = None,
) -> Judgement:
    """Quality of two ways of training, seed by seed; ``margin`` is an absolute difference.

    The seed is the sample here: with one seed, however small the difference, its spread is unknown.
    """
    seeds = sorted(before.keys() & after.keys())
    middle = _medians(before, after, seeds)
    differences = [after[s] - before[s] for s in seeds]
    mean = statistics.fmean(differences)
    low = high = None
    verdict: Verdict = "inconclusive"
    if len(seeds) == 1:
        size = "within" if abs(mean) <= margin else "beyond"
        reason = (
            f"one seed in common: the difference {mean:+.4f} is {size} the margin {margin:g}, "
            "but its spread over seeds is unknown; give several runs a side, with the same seeds."
        )
    elif floor is not None and not anything_learnt(middle, floor, direction):
        reason = f"neither side is beyond {floor:g}: where nothing was learnt there is nothing to compare."
    else:
        _, low, high = t_interval(differences)
        verdict, reason = _against_margin(mean, low, high, -margin, 0, margin, direction)
        reason += f" ({margin:g} either way), over {len(seeds)} paired seeds."
    scale = middle[0]
    return Judgement(
        before=middle[0],
        after=middle[1],
        ratio=middle[1] / scale if scale else None,
        low=1 + low / scale if low is not None and scale else None,
        high=1 + high / scale if high is not None and scale else None,
        verdict=verdict,
        reason=reason,
    )


def _against_margin(
    point: float, low: float, high: float, floor: float, nothing: float, ceiling: float, direction: Direction
) -> tuple[Verdict, str]:
    """Where an interval lies to the band [floor, ceiling] around no difference at all."""
    if floor <= low and high <= ceiling:
        return "equivalent", "the interval lies inside the margin"
    if not low <= nothing <= high and not floor <= point <= ceiling:
        gained = (point > nothing) == (direction == "higher")
        return ("better" if gained else "worse"), "the difference is beyond the margin and beyond noise"
    if low <= nothing <= high:
        return "inconclusive", "the interval includes no difference and reaches beyond the margin"
    return "inconclusive", "there is a difference, but it may be within the margin"


def _medians(
    before: Mapping[int, float], after: Mapping[int, float], seeds: Sequence[int]
) -> tuple[float, float]:
    return statistics.median(before[s] for s in seeds), statistics.median(after[s] for s in seeds)


def anything_learnt(values: Sequence[float], floor: float, direction: Direction) -> bool:
    """Whether one of these is beyond what a model comes to that has learnt nothing."""
    return any(value > floor if direction == "higher" else value < floor for value in values)


def t_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of two values or more, and its two-sided 95 % t interval (mean, low, high)."""
    n, mean = len(values), statistics.fmean(values)
    half = _t_quantile(1 - ALPHA / 2, n - 1) * statistics.stdev(values) / math.sqrt(n)
    return mean, mean - half, mean + half


def equivalence_seeds(differences: Sequence[float], margin: float, power: float) -> int | None:
    """How many pairs find two equal arms equivalent with probability ``power``, at the spread seen.

    The smallest n with (t(1 - alpha/2) + t(1 - (1 - power)/2)) * s / sqrt(n) <= margin, n - 1 degrees of
    freedom: the usual sample size of an equivalence test at no true difference (Chow, Shao, Wang: Sample Size
    Calculations in Clinical Research, section 3.2), with t for the normal.

    Returns:
        None with fewer than two differences, or where more than 10,000 would be needed.
    """
    if len(differences) < 2:
        return None
    spread = statistics.stdev(differences)

    def enough(n: int) -> bool:
        quantiles = _t_quantile(1 - ALPHA / 2, n - 1) + _t_quantile((1 + power) / 2, n - 1)
        return quantiles * spread / math.sqrt(n) <= margin

    candidates = range(2, 10_001)
    place = bisect.bisect_left(candidates, True, key=enough)
    return candidates[place] if place < len(candidates) else None


@functools.cache
def _t_quantile(share: float, freedom: int) -> float:
    # scipy.stats takes a second to import, and few comparisons need it.
    from scipy.stats import t

    return float(t.ppf(share, freedom))
