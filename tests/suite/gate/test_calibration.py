from __future__ import annotations

from suite.gate.calibration import calibrate
from suite.gate.plan import RegressionPlan

PLAN = RegressionPlan()


def test_a_slowdown_of_steady_launches_is_seen_above_the_margin():
    steady = {"one": {"step_ms": [10 + i / 1000 for i in range(30)]}}
    found = calibrate(steady, PLAN, gates=100)
    (sight,) = found.sights
    assert found.false_alarms == 0
    # The margin of step_ms is 5 %; the next slowdown that is tried is 6 %.
    assert sight.smallest == 0.06
    assert found.margins == {"step_ms": 0.01}


def test_launches_that_differ_twofold_show_nothing():
    wild = {"one": {"step_ms": [10.0, 20.0] * 15}}
    (sight,) = calibrate(wild, PLAN, gates=50).sights
    assert sight.smallest is None
    # Medians of five of them are 10 or 20, and the other side's may be the other.
    assert sight.margin == 1.0
