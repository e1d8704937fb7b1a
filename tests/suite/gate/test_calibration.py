"""Gates drawn from launches recorded on a machine (``tests/golden/README.md`` says which)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite.gate.calibration import calibrate, draw_gates, values_of
from suite.gate.noise import FALSE_ALARM
from suite.gate.plan import RegressionPlan
from suite.gate.regression import Side
from tests.helpers.records import make_launch, make_record, with_memory

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


def test_a_metric_that_some_launch_has_none_of_has_no_ratio():
    launches = [with_memory(make_launch(i, [10.0, 10.0]), [0, 0] if i == 3 else [5, 5]) for i in range(30)]
    values = values_of("one", Side(tuple(make_record([launch]) for launch in launches)), PLAN)
    assert {"step_ms", "memory.process"} <= values.keys()
    assert "memory.activations" not in values
    assert calibrate({"one": values}, PLAN, gates=5).false_alarms == 0


def test_launches_that_differ_twofold_show_nothing():
    wild = {"one": {"step_ms": [10.0, 20.0] * 15}}
    (sight,) = calibrate(wild, PLAN, gates=50).sights
    assert sight.smallest is None
    # Medians of five of them are 10 or 20, and the other side's may be the other.
    assert sight.margin == 1.0
