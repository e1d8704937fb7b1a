"""Gates drawn from launches recorded on a machine (``tests/golden/README.md`` says which)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite.gate.calibration import calibrate, draw_gates
from suite.gate.noise import FALSE_ALARM
from suite.gate.plan import RegressionPlan

GOLDEN = Path(__file__).parents[2] / "golden" / "gate_launches.json"
PLAN = RegressionPlan()


@pytest.fixture(scope="module")
def launches():
    return json.loads(GOLDEN.read_text())


def test_gates_of_one_program_against_itself_call_one_in_a_hundred_worse_at_most(launches):
    alarms, seconds = draw_gates(launches, PLAN, gates=500)
    assert alarms / 500 <= FALSE_ALARM
    # That machine was busy: without the second look nearly every gate would have failed.
    assert seconds / 500 > 0.2


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
