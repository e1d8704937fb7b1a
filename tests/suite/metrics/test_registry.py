from __future__ import annotations

import pytest

from suite.components import COMMUNICATION, COMPONENTS, ROLLUPS
from suite.errors import SuiteError
from suite.metrics import METRICS
from suite.metrics.base import Metric
from tests.helpers.records import make_record

NAMES = {
    "step_ms",
    "samples_per_s",
    "bytes",
    "wire_bytes",
    "calls",
    "memory.process",
    "memory.allocated_peak",
    "memory.reserved_peak",
    "memory.embedding_weights",
    "memory.embedding_optimizer_state",
    "memory.dense_parameters",
    "memory.dense_optimizer_state",
    "memory.gradients",
    "memory.activations",
    "memory.communication_buffers",
    "memory.other",
    "auc",
    "normalized_entropy",
    "log_loss",
    "calibration_error",
    "profiling_cost",
    *(f"components.{component}.{figure}" for component in COMPONENTS for figure in ("busy_ms", "exposed_ms")),
    *(
        f"components.{component}.{figure}"
        for component in COMMUNICATION
        for figure in ("wait_ms", "transfer_ms", "bytes", "wire_bytes", "calls")
    ),
    *(f"rollups.{name}" for name in ROLLUPS),
}


def test_the_names_that_others_script_against():
    assert set(METRICS) == NAMES
    assert all(name == metric.name for name, metric in METRICS.items())


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_noisy_metric_has_a_margin(name):
    metric = METRICS[name]
    assert metric.deterministic or (metric.margin is not None and metric.margin > 0)


def test_directions():
    assert {name for name, metric in METRICS.items() if metric.direction == "higher"} == {
        "samples_per_s",
        "auc",
    }


def test_one_that_fails_names_itself():
    broken = Metric("oops", "B", "lower", deterministic=True, of_launch=lambda run, launch: launch.nothing)
    with pytest.raises(SuiteError, match="AttributeError: 'LaunchRecord' object has no attribute") as raised:
        broken.values(make_record())
    assert (raised.value.report.field, raised.value.report.value) == ("metric", "oops")
