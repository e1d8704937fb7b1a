from __future__ import annotations

import random

import pytest

from suite.gate.noise import FALSE_ALARM, first_look, fresh_launches, only_look, second_look
from suite.statistics import rank_sum_tail

A = [10.0, 10.1, 10.2, 10.3, 10.4]
SLOWER = [value * 1.2 for value in A]


def test_the_tail_is_that_of_hand_counted_orderings():
    # Of the C(5, 2) = 10 orderings of 2 and 3 values one has all of `after` on top, one more is as extreme.
    assert rank_sum_tail([1, 2], [3, 4, 5], "lower") == pytest.approx(1 / 10)
    assert rank_sum_tail([1, 3], [2, 4, 5], "lower") == pytest.approx(2 / 10)
    assert rank_sum_tail([3, 4], [1, 2, 0], "higher") == pytest.approx(1 / 10)


def test_equal_values_are_no_evidence():
    assert rank_sum_tail([1, 1, 1], [1, 1, 1], "lower") == 1


@pytest.mark.parametrize(
    ("before", "after", "direction", "verdict", "suspicious"),
    [
        (A, A, "lower", "equivalent", False),
        (A, SLOWER, "lower", "inconclusive", True),
        (SLOWER, A, "higher", "inconclusive", True),
        (A, [10.0, 10.1, 10.2, 13, 14], "lower", "inconclusive", False),
        (SLOWER, A, "lower", "inconclusive", True),
    ],
    ids=["same", "slower", "fewer", "two outliers", "faster"],
)
def test_the_first_look_suspects_and_condemns_nothing(before, after, direction, verdict, suspicious):
    judged, looks_worse = first_look(before, after, direction, 0.05)
    assert (judged.verdict, looks_worse) == (verdict, suspicious)


def test_a_difference_within_the_margin_is_not_worse_however_certain():
    after = [value * 1.04 for value in A]
    assert not first_look(A, after, "lower", 0.05)[1]
    assert second_look([10.0] * 8, [10.4] * 8, "lower", 0.05, 1).verdict == "inconclusive"


def test_the_second_look_condemns_or_acquits():
    six = [*A, 10.5]
    assert second_look(six, [v * 1.2 for v in six], "lower", 0.05, 1).verdict == "worse"
    assert second_look([v * 1.2 for v in six], six, "lower", 0.05, 1).verdict == "better"
    assert second_look(six, six, "lower", 0.05, 1).verdict == "inconclusive"
    mixed = [9.0, 9.5, 11.0, 11.5, 12.0, 12.5]
    assert second_look(six, mixed, "lower", 0.05, 1).verdict == "inconclusive"


@pytest.mark.parametrize(("suspects", "launches"), [(1, 5), (3, 6), (9, 6), (10, 7), (30, 7)])
def test_more_suspects_take_more_fresh_launches(suspects, launches):
    assert fresh_launches(suspects, 5) == launches
    assert fresh_launches(suspects, 8) == 8


def test_one_look_alone_must_hold_over_all_metrics():
    eight = [10 + i / 100 for i in range(8)]
    slower = [value * 1.2 for value in eight]
    assert only_look(eight, slower, "lower", 0.05, judged=30).verdict == "worse"
    assert only_look(A, SLOWER, "lower", 0.05, judged=30).verdict == "inconclusive"


def test_equal_sides_are_called_worse_in_one_gate_of_a_hundred_at_most():
    # The worst case for false alarms: no margin to speak of, and 20 independent metrics of wide spread.
    draw = random.Random(0)
    alarms, gates = 0, 1000
    for _ in range(gates):
        suspects = sum(first_look(_noise(draw, 5), _noise(draw, 5), "lower", 1e-9)[1] for _ in range(20))
        fresh = fresh_launches(max(1, suspects), 6)
        alarms += any(
            second_look(_noise(draw, fresh), _noise(draw, fresh), "lower", 1e-9, suspects).verdict == "worse"
            for _ in range(suspects)
        )
    # The same draws each time. Two standard deviations of a share of 1 % over 1000 gates are 0.6 points.
    assert alarms / gates <= FALSE_ALARM + 0.006


def _noise(draw: random.Random, count: int) -> list[float]:
    return [draw.lognormvariate(0, 0.3) for _ in range(count)]
