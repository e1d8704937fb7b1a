from __future__ import annotations

import itertools
import random

from profiles.intervals import Interval, difference, intersection, length, union


def points(intervals: list[Interval]) -> set[int]:
    return {moment for start, end in intervals for moment in range(start, end)}


def test_against_sets_of_moments() -> None:
    draw = random.Random(0)
    for _ in range(300):
        a, b = (
            [(s, s + draw.randint(-3, 12)) for s in (draw.randint(0, 60) for _ in range(draw.randint(0, 8)))]
            for _ in range(2)
        )
        one, other = union(a), union(b)
        assert points(one) == points(a)
        for found, right in (
            (one, points(a)),
            (intersection(one, other), points(a) & points(b)),
            (difference(one, other), points(a) - points(b)),
        ):
            assert points(found) == right
            assert length(found) == len(right)
            assert all(x[1] < y[0] or x[1] == y[0] for x, y in itertools.pairwise(found))


def test_empty_and_negative_ones_hold_no_time_and_touching_ones_are_one() -> None:
    assert union([(5, 5), (9, 7), (1, 2), (2, 3)]) == [(1, 3)]
