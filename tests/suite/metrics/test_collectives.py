from __future__ import annotations

from suite.metrics import METRICS
from tests.helpers.records import make_launch, make_record, make_run


def test_totals_of_the_last_counted_step_on_the_rank_that_sends_most():
    # Last step, rank r: 200 + 10 bytes, 100 + 5 r of them on the wire, 3 + 3 calls. The step before has more.
    record = make_record([make_launch(0, [10, 10, 10], wire_bytes=100)])
    assert METRICS["bytes"].values(record) == [210]
    assert METRICS["wire_bytes"].values(record) == [110]
    assert METRICS["calls"].values(record) == [6]


def test_a_step_sends_what_the_steps_from_sync_to_sync_send_on_average():
    run = make_run(layout={"world_size": 2, "replica_groups": 2}, sync_interval=2)
    record = make_record([make_launch(0, [10, 10], wire_bytes=100)], run)
    # Two steps were counted: 9999 bytes, then 210 with 105 on the wire of rank 1.
    assert METRICS["bytes"].values(record) == [(9999 + 210) / 2]
    assert METRICS["wire_bytes"].values(record) == [(9999 + 105) / 2]
    assert METRICS["calls"].values(record) == [(3 + 6) / 2]


def test_nothing_counted_is_no_value_rather_than_zero():
    launch = make_launch(0)
    uncounted = tuple(rank.model_copy(update={"collectives": ()}) for rank in launch.ranks)
    record = make_record([launch.model_copy(update={"ranks": uncounted})])
    assert METRICS["wire_bytes"].values(record) == []
