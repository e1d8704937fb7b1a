from __future__ import annotations

import pytest

from suite.gate.plan import ScalingPlan
from suite.gate.regression import Side
from suite.gate.scaling import Point, judge, points, suspicious, too_many
from tests.helpers.records import make_environment, make_launch, make_record, make_run

ONE, TWO, TWO_D = Point("strong", 1, 1), Point("strong", 2, 1), Point("strong", 2, 2)


def plan(**threshold: float) -> ScalingPlan:
    return ScalingPlan.model_validate(
        {
            "workload": "tiny",
            "thresholds": [{"scaling": "strong", "world_size": 2, "replica_groups": 2} | threshold],
        }
    )


def side(point: Point, step: float, **changes: object) -> Side:
    layout = {"world_size": point.world_size, "replica_groups": point.replica_groups}
    launches = [make_launch(i, [step + i / 1000] * point.world_size) for i in range(5)]
    return Side((make_record(launches, make_run(layout=layout), **changes),))


def sides(one: float, two: float, two_d: float) -> dict[str, Side]:
    return {p.name: side(p, step) for p, step in ((ONE, one), (TWO, two), (TWO_D, two_d))}


@pytest.mark.parametrize(
    ("threshold", "after", "verdict"),
    # The step of 2D is 8 ms, of 1D 10 ms at T=2 and 16 ms at T=1. So strong scaling from 1 to 2 ranks is
    # 16 / 8 / 2 = 1 of the ideal, and 2D is 10 / 8 = 1.25 of 1D.
    [
        ({"efficiency": 0.9}, 1.0, "equivalent"),
        ({"efficiency": 1.1}, 1.0, "worse"),
        ({"of_1d": 1.2}, 1.25, "equivalent"),
        ({"of_1d": 1.3}, 1.25, "worse"),
        ({"of_1d": 1.25}, 1.25, "inconclusive"),
    ],
)
def test_thresholds_against_hand_arithmetic(threshold, after, verdict):
    (row,) = judge(plan(**threshold), sides(16, 10, 8), {})
    assert row.verdict == verdict
    # The launches differ by thousandths of a millisecond.
    assert row.after == pytest.approx(after, rel=1e-3)
    assert (row.name, row.configuration) == (next(iter(threshold)), "strong T=2 M=2")


def test_what_is_below_its_threshold_is_measured_again_with_what_it_is_compared_with():
    rules = plan(of_1d=1.3)
    assert suspicious(judge(rules, sides(16, 10, 8), {}), rules) == [TWO, TWO_D]
    assert points(plan(efficiency=1, of_1d=1)) == [ONE, TWO_D, TWO]


def test_too_many_ranks_for_the_cores_did_not_run_and_say_why():
    why = too_many(TWO_D, cores=1)
    assert why is not None
    (row,) = judge(plan(of_1d=1), {}, {TWO.name: why, TWO_D.name: why})
    assert (row.verdict, row.status) == ("did_not_run", "fail")
    assert "2 ranks on 1 cores take turns" in row.reason
    assert too_many(TWO_D, cores=2) is None


def test_records_of_an_oversubscribed_host_say_nothing_either():
    crowded = side(TWO_D, 8, environment=make_environment(flags=["oversubscribed"]))
    (row,) = judge(plan(of_1d=1), sides(16, 10, 8) | {TWO_D.name: crowded}, {})
    assert row.verdict == "did_not_run"
    assert "oversubscribed" in row.reason


def test_a_point_that_failed_or_has_no_record_did_not_run():
    (row,) = judge(plan(of_1d=1), {TWO.name: side(TWO, 10)}, {})
    assert row.verdict == "did_not_run"
    assert "has no record" in row.reason
