from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from suite.statistics import (
    ALPHA,
    judge_exact,
    judge_noisy,
    judge_paired,
    launches_needed,
    median_interval,
    rank_sum_cut,
)


def test_no_launch_has_no_median_and_one_no_interval():
    assert median_interval([]) is None
    found = median_interval([3.0])
    assert (found.median, found.low, found.high, found.confidence) == (3.0, None, None, None)


@pytest.mark.parametrize(
    ("n", "low", "high", "confidence"),
    [
        # P(all n on one side of the median) = 2^-n each way.
        (2, 1, 2, 1 / 2),
        (3, 1, 3, 3 / 4),
        (5, 1, 5, 15 / 16),
        (6, 1, 6, 31 / 32),
        # Dropping one at each end leaves 1 - 2 * (1 + 9) / 2^9.
        (9, 2, 8, 1 - 20 / 512),
    ],
)
def test_the_interval_of_the_median_and_its_exact_confidence(n, low, high, confidence):
    found = median_interval([float(x) for x in range(n, 0, -1)])
    assert (found.low, found.high) == (low, high)
    assert found.confidence == pytest.approx(confidence)


def test_the_interval_covers_the_median_as_often_as_it_says():
    # 2,000 draws of 7 launches from a skewed distribution of median ln 2: 1 - 2 / 2^7 = 98.4 % cover it.
    # Three standard errors of a share of 2,000 at that value: 0.8 %.
    rng = np.random.default_rng(1)
    draws = rng.exponential(size=(2000, 7))
    found = [median_interval(row.tolist()) for row in draws]
    covered = np.mean([f.low <= math.log(2) <= f.high for f in found])
    assert covered == pytest.approx(found[0].confidence, abs=0.008)


@pytest.mark.parametrize(("n", "m"), [(1, 4), (2, 5), (3, 3), (4, 4), (5, 4), (6, 6)])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_the_rank_sum_distribution_equals_that_of_all_orderings(n, m, alpha):
    places = itertools.combinations(range(n + m), n)
    statistics = [sum(place) - n * (n - 1) // 2 for place in places]
    cut = 0
    while 2 * sum(u <= cut for u in statistics) <= alpha * len(statistics):
        cut += 1
    assert rank_sum_cut(n, m, alpha) == cut


def test_launches_needed():
    # Two sets of n apart from each other: probability 2 / C(2n, n) by chance; C(8, 4) = 70, C(10, 5) = 252.
    assert launches_needed(0.05) == 4
    assert launches_needed(0.05 / 3) == 5


FAST, SLOW = [10.0, 10.1, 10.2, 9.9, 9.8], [12.0, 12.1, 12.2, 11.9, 11.8]


@pytest.mark.parametrize(
    ("before", "after", "direction", "verdict"),
    [
        (SLOW, FAST, "lower", "better"),
        (FAST, SLOW, "lower", "worse"),
        (SLOW, FAST, "higher", "worse"),
        (FAST, SLOW, "higher", "better"),
        (FAST, [x * 1.001 for x in FAST], "lower", "equivalent"),
    ],
)
def test_verdict_on_five_launches_a_side(before, after, direction, verdict):
    found = judge_noisy(before, after, direction, 0.05, ALPHA)
    assert found.verdict == verdict
    assert found.low <= found.ratio <= found.high
    assert found.ratio == pytest.approx(found.after / found.before)


def test_too_few_launches_are_inconclusive_and_say_how_many_it_takes():
    found = judge_noisy([10.0, 10.1], [20.0, 20.1], "lower", 0.05, ALPHA / 3)
    assert (found.verdict, found.low, found.high) == ("inconclusive", None, None)
    assert "it takes 5 a side" in found.reason
    assert found.ratio == pytest.approx(2, rel=0.01)


def test_a_difference_that_noise_explains_is_inconclusive():
    # Medians 10 and 12, but the sets overlap throughout.
    found = judge_noisy([8.0, 9.0, 10.0, 13.0, 15.0], [8.5, 9.5, 12.0, 12.5, 14.0], "lower", 0.05, ALPHA)
    assert found.verdict == "inconclusive"
    assert found.low < 1 < found.high


def test_a_sure_difference_within_the_margin_is_not_worse():
    # 3 % slower in every launch: beyond noise, within the margin of 5 %.
    found = judge_noisy(FAST, [x + 0.5 for x in FAST], "lower", 0.05, ALPHA)
    assert found.low > 1
    assert found.verdict == "inconclusive"
    narrow = judge_noisy(
        [10, 10.01, 10.02, 10.03, 10.04], [10.2, 10.21, 10.22, 10.23, 10.24], "lower", 0.05, ALPHA
    )
    assert narrow.low > 1
    assert narrow.verdict == "equivalent"


def test_equal_distributions_are_rarely_told_apart():
    # 400 pairs of 6 launches of one distribution, no margin to hide behind. The exact level at 6 and 6 is
    # 2 * 19 / 924 = 4.1 %; three standard errors of a share of 400 add 3 %.
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(400):
        draws = rng.lognormal(0, 0.1, size=(2, 6)).tolist()
        wrong += judge_noisy(*draws, "lower", 1e-9, ALPHA).verdict in ("better", "worse")
    assert 0 < wrong / 400 <= 0.041 + 0.03


def test_a_deterministic_metric_is_compared_to_the_last_bit():
    equal = judge_exact({0: 0.1 + 0.2}, {0: 0.1 + 0.2}, "higher")
    assert (equal.verdict, equal.ratio) == ("equivalent", 1)
    assert judge_exact({0: 0.1 + 0.2}, {0: 0.3}, "higher").verdict == "worse"
    assert judge_exact({0: 0.1 + 0.2}, {0: 0.3}, "lower").verdict == "better"


def test_worse_with_one_seed_is_worse():
    found = judge_exact({0: 10, 1: 10, 2: 10}, {0: 5, 1: 11, 3: 1}, "lower")
    assert found.verdict == "worse"
    assert (found.before, found.after) == (10, 8)


def test_nothing_before_has_no_ratio():
    found = judge_exact({0: 0}, {0: 7}, "lower")
    assert (found.verdict, found.ratio) == ("worse", None)


@pytest.mark.parametrize(("after", "word"), [(0.7805, "within"), (0.7700, "beyond")])
def test_quality_of_one_seed_is_inconclusive_however_small_the_difference(after, word):
    found = judge_paired({0: 0.7809}, {0: after}, "higher", 0.001)
    assert found.verdict == "inconclusive"
    assert f"{word} the margin" in found.reason
    assert "same seeds" in found.reason
    assert (found.low, found.high) == (None, None)


def seeds(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


ONE_D = seeds(0.7809, 0.7812, 0.7806, 0.7810)


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ((-0.0001, 0.0001, -0.0002, 0.0), "equivalent"),
        ((-0.0041, -0.0043, -0.0040, -0.0042), "worse"),
        ((0.0041, 0.0043, 0.0040, 0.0042), "better"),
        ((-0.0030, 0.0040, 0.0001, -0.0020), "inconclusive"),
        # Beyond noise, but the interval reaches into the margin.
        ((-0.0010, -0.0009, -0.0012, -0.0008), "inconclusive"),
    ],
)
def test_quality_over_paired_seeds(differences, verdict):
    after = {seed: ONE_D[seed] + difference for seed, difference in enumerate(differences)}
    found = judge_paired(ONE_D, after, "higher", 0.001)
    assert found.verdict == verdict
    assert found.low < found.high


def test_the_paired_interval_by_hand():
    # Differences 0.01 and 0.03: mean 0.02, standard error 0.01, t(1 degree, 97.5 %) = 12.7062.
    found = judge_paired(seeds(0.5, 0.5), seeds(0.51, 0.53), "higher", 0.001)
    assert found.ratio == pytest.approx(1.04)
    assert found.low == pytest.approx(1 + (0.02 - 0.127062) / 0.5, abs=1e-6)
    assert found.high == pytest.approx(1 + (0.02 + 0.127062) / 0.5, abs=1e-6)


def test_two_sides_that_learnt_nothing_are_not_equivalent():
    flat = seeds(0.5, 0.501, 0.499)
    assert judge_paired(flat, flat, "higher", 0.001).verdict == "equivalent"
    found = judge_paired(flat, flat, "higher", 0.001, floor=0.51)
    assert found.verdict == "inconclusive"
    assert "nothing was learnt" in found.reason
    flat_entropy = seeds(1.0, 1.0, 0.9995)
    assert judge_paired(flat_entropy, flat_entropy, "lower", 0.001, floor=0.999).verdict == "inconclusive"
