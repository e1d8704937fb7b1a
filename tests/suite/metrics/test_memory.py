from __future__ import annotations

from suite.metrics import METRICS
from tests.helpers.records import make_launch, make_record


def test_the_largest_rank_in_each_category():
    record = make_record([make_launch(0, [10, 10, 10], process=500)])
    assert METRICS["memory.process"].values(record) == [502]
    assert METRICS["memory.embedding_weights"].values(record) == [66]
    assert METRICS["memory.embedding_optimizer_state"].values(record) == [16]


def test_a_peak_that_was_not_measured_has_no_value():
    assert METRICS["memory.allocated_peak"].values(make_record()) == []
