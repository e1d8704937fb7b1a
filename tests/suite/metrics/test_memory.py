from __future__ import annotations

from suite.metrics import METRICS
from tests.helpers.records import make_launch, make_record, with_memory


def test_the_largest_rank_in_each_category():
    record = make_record([make_launch(0, [10, 10, 10], process=500)])
    assert METRICS["memory.process"].values(record) == [502]
    assert METRICS["memory.embedding_weights"].values(record) == [66]
    assert METRICS["memory.embedding_optimizer_state"].values(record) == [16]


def test_what_passes_is_as_it_was_at_the_peak():
    record = make_record([with_memory(make_launch(0, [10, 10]), [1000, 3000])])
    assert METRICS["memory.activations"].values(record) == [3000]
    assert METRICS["memory.communication_buffers"].values(record) == [0]
    # A CPU's allocator has no peak of its own: 88 bytes that last on rank 0, and 89 on rank 1.
    assert METRICS["memory.allocated_peak"].values(record) == [3089]


def test_a_peak_that_was_not_measured_has_no_value():
    assert METRICS["memory.allocated_peak"].values(make_record()) == []
