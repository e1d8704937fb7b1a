"""A record that a user may have kept: it must stay readable, and its figures must stay the same."""

from __future__ import annotations

import pytest

from suite.metrics import METRICS
from suite.statistics import median_interval
from suite.store import read
from tests.golden.make import PATH

# Exact: a metric is arithmetic on the record's own numbers. Read off the file by hand: the step time is the
# middle of five steps of the slowest rank, rank 0 in both launches; bytes add up the last counted step.
FIGURES = {
    "step_ms": [37.60706000002756, 52.318310999908135],
    "bytes": [68000 + 2116 + 44848] * 2,
    "wire_bytes": [68000 + 2116 + 19472] * 2,
    "calls": [1 + 1 + 5] * 2,
    "memory.embedding_weights": [2000 * 16 * 4 / 2] * 2,
    "memory.embedding_optimizer_state": [2000 * 4 / 2] * 2,
    "memory.dense_parameters": [2116] * 2,
    "memory.dense_optimizer_state": [2140] * 2,
    "memory.process": [384442368, 384385024],
    "memory.allocated_peak": [],
    "memory.reserved_peak": [],
    "auc": [0.6757468623956834] * 2,
    "normalized_entropy": [0.9730022158187355] * 2,
    "log_loss": [0.6742834106207893] * 2,
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_the_record_of_schema_version_1(name):
    assert METRICS[name].values(read(PATH)) == FIGURES[name]


def test_speed_follows_from_the_step_time():
    # The global batch of this record is 256.
    speeds = METRICS["samples_per_s"].values(read(PATH))
    assert speeds == pytest.approx([256_000 / step for step in FIGURES["step_ms"]])


def test_a_setting_that_it_does_not_name_is_what_every_run_had():
    """Records of before there was a choice were averaged after every step, moments with the weights."""
    assert "sync_interval" not in PATH.read_text()
    run = read(PATH).run
    assert (run.sync_interval, run.sync_optimizer_state) == (1, "immediate")


def test_its_summary():
    found = median_interval(METRICS["step_ms"].values(read(PATH)))
    assert found is not None
    assert (found.low, found.high, found.confidence) == (*FIGURES["step_ms"], 0.5)
