"""The verdict: on hand-made results, and how often it is wrong over simulated experiments."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from suite.quality.parity import Parity, judge
from suite.spec import ParitySpec
from tests.suite.quality.results import result

GOAL = ParitySpec()
SEEDS = GOAL.seeds
#: Standard deviation of the paired difference of AUC, movielens_100k, M = 4 against 1D: 0.00098 (10 seeds).
SPREAD = 0.001
#: The same of normalized entropy, M = 2 against 1D: 0.0017 and 0.0022 (5 seeds, two arms).
ENTROPY_SPREAD = 0.002
EXPERIMENTS = 500


def experiment(
    gap: float,
    spread: float = SPREAD,
    seeds: int = SEEDS,
    draw: random.Random | None = None,
    entropy_gap: float = 0.0,
) -> Parity:
    """Paired seeds whose AUC differs by a normal with this mean and spread, and whose entropy differs, too.

    On the mean the entropy is alike, unless it is told otherwise: its verdict is one more that may be wrong.
    """
    draw = draw or random.Random(0)
    one = [result(s, [0.785 + draw.gauss(0, 0.001)], 0.81) for s in range(seeds)]
    two = [
        result(
            s,
            [r.curve[-1].quality.auc + draw.gauss(gap, spread)],  # type: ignore[operator]
            0.81 + draw.gauss(entropy_gap, ENTROPY_SPREAD),
            groups=4,
        )
        for s, r in enumerate(one)
    ]
    return judge(one, two, GOAL)


def rates(gap: float) -> Counter[str]:
    """Verdicts over many experiments; a fixed seed, so that the test is the same every time."""
    draw = random.Random(1)
    return Counter(experiment(gap, draw=draw).verdict for _ in range(EXPERIMENTS))


def test_a_gap_as_large_as_the_margin_is_wrongly_equivalent_in_at_most_5_of_100() -> None:
    """Two-sided 95 % intervals: 2.5 of 100 expected; 5 is demanded."""
    assert rates(-GOAL.auc_margin)["equivalent"] <= 0.05 * EXPERIMENTS
    assert rates(GOAL.auc_margin)["equivalent"] <= 0.05 * EXPERIMENTS


def test_no_gap_is_equivalent_in_at_least_90_of_100_and_hardly_ever_worse() -> None:
    found = rates(0.0)

    assert found["equivalent"] >= 0.9 * EXPERIMENTS
    assert found["worse"] <= 0.05 * EXPERIMENTS


def test_a_loss_of_entropy_as_large_as_its_margin_is_hardly_ever_called_equivalent_in_both() -> None:
    """Where AUC is alike the verdict may be "equivalent", and then it says that entropy is undecided."""
    draw = random.Random(5)
    gap = GOAL.normalized_entropy_margin * 0.81
    found = [experiment(0.0, draw=draw, entropy_gap=gap) for _ in range(EXPERIMENTS)]
    passed = [judged for judged in found if judged.verdict in ("equivalent", "better")]
    assert len(passed) < 0.75 * EXPERIMENTS
    assert sum(not judged.undecided for judged in passed) <= 0.05 * EXPERIMENTS


def test_a_clear_loss_is_worse_and_a_clear_gain_is_better() -> None:
    assert experiment(-0.003).verdict == "worse"
    assert experiment(+0.003).verdict == "better"


def test_few_seeds_are_inconclusive_and_say_how_many_are_needed() -> None:
    judged = experiment(0.0, spread=0.002, seeds=3)

    assert judged.verdict == "inconclusive"
    assert judged.checks[0].seeds_needed is not None
    assert judged.checks[0].seeds_needed > 3


def test_one_seed_is_inconclusive() -> None:
    judged = judge([result(0, [0.78])], [result(0, [0.78])], GOAL)

    assert (judged.verdict, judged.difference.low) == ("inconclusive", None)


def test_the_seeds_asked_for_are_enough() -> None:
    """The sample size formula against simulation: 90 of 100 are equivalent, within what 250 draws show."""
    draw = random.Random(2)
    needed = experiment(0.0, spread=0.0012, seeds=400, draw=draw).checks[0].seeds_needed
    assert needed is not None

    found = Counter(
        experiment(0.0, spread=0.0012, seeds=needed, draw=draw).verdict for _ in range(EXPERIMENTS // 2)
    )

    assert 0.84 <= found["equivalent"] / (EXPERIMENTS // 2) <= 0.97


def test_two_sides_that_learnt_nothing_are_not_at_parity() -> None:
    one = [result(s, [0.5 + s * 1e-5], entropy=1.0) for s in range(SEEDS)]

    judged = judge(one, one, GOAL)

    assert judged.verdict == "inconclusive"
    assert "nothing was learnt" in judged.checks[0].reason


def test_entropy_alone_can_make_it_worse() -> None:
    draw = random.Random(3)
    one = [result(s, [0.785]) for s in range(SEEDS)]
    two = [result(s, [0.785], entropy=0.8 + 0.004 + draw.gauss(0, 0.0005)) for s in range(SEEDS)]

    judged = judge(one, two, GOAL)

    assert (judged.verdict, judged.metric) == ("worse", "normalized_entropy")
    assert judged.margin == pytest.approx(0.8 * 0.001)


def test_doubt_about_entropy_alone_is_shown_and_decides_nothing() -> None:
    draw = random.Random(4)
    one = [result(s, [0.785 + draw.gauss(0, 0.0001)]) for s in range(SEEDS)]
    two = [result(s, [0.785], entropy=0.8 + draw.gauss(0, 0.003)) for s in range(SEEDS)]

    judged = judge(one, two, GOAL)

    assert (judged.verdict, judged.metric) == ("equivalent", "auc")
    assert judged.checks[1].verdict == "inconclusive"
    assert judged.undecided == ("normalized_entropy",)


def test_nothing_is_at_parity_that_by_one_metric_learnt_nothing() -> None:
    """Scores in the right order and of the wrong size: worse than knowing the base rate alone."""
    one = [result(s, [0.785 + s * 1e-5], entropy=1.1) for s in range(SEEDS)]
    two = [result(s, [0.785 + s * 1e-5], entropy=2.0) for s in range(SEEDS)]

    judged = judge(one, two, GOAL)

    assert (judged.verdict, judged.metric) == ("inconclusive", "normalized_entropy")
    assert "nothing was learnt" in judged.checks[1].reason


def test_a_gain_in_one_metric_does_not_make_up_for_a_loss_in_the_other() -> None:
    one = [result(s, [0.785 + s * 1e-5]) for s in range(SEEDS)]
    two = [result(s, [0.79 + s * 1e-5], entropy=0.85 + s * 1e-5) for s in range(SEEDS)]

    assert judge(one, two, GOAL).verdict == "worse"


def test_samples_to_the_target_are_read_off_the_curve() -> None:
    one = [result(s, [0.6, 0.7, 0.8]) for s in (0, 1)]
    two = [result(s, [0.6, 0.62, 0.64]) for s in (0, 1)]

    judged = judge(one, two, GOAL, target_auc=0.65)

    assert judged.arms["baseline"].samples_to_target == pytest.approx(150)
    assert judged.arms["candidate"].samples_to_target is None
    assert judged.samples_ratio is None


def test_samples_to_the_target_are_compared_seed_by_seed() -> None:
    one = [result(s, [0.6, 0.7, 0.8]) for s in range(4)]
    two = [result(s, [0.6, 0.6 + 0.05 / growth, 0.8]) for s, growth in enumerate((1.0, 1.25, 1.25, 1.0))]

    judged = judge(one, two, GOAL, target_auc=0.64)

    # 140 samples in 1D; 180, 200, 200, 180 in 2D.
    assert judged.samples_ratio is not None
    assert judged.samples_ratio.mean == pytest.approx(math.sqrt(180 * 200) / 140)
    assert judged.samples_ratio.low is not None
    assert 1.2 < judged.samples_ratio.low < judged.samples_ratio.mean
    assert [p.auc.mean for p in judged.arms["baseline"].curve] == pytest.approx([0.6, 0.7, 0.8])


def test_unlike_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="same seeds"):
        judge([result(0, [0.7])], [result(1, [0.7])], GOAL)
