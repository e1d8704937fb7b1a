from __future__ import annotations

from suite.metrics import METRICS
from tests.helpers.records import failed_launch, make_launch, make_record, make_run


def test_step_time_is_the_slowest_ranks_median_without_warm_up():
    # Per rank: median - 1, median, median, median + 50; warm-up of 99 ms.
    record = make_record([make_launch(0, [10, 12]), make_launch(1, [11, 7])])
    assert METRICS["step_ms"].values(record) == [12, 11]


def test_step_time_holds_the_replica_sync_that_only_some_steps_have():
    # Every second step ends with a sync. Rank 0: 9 and 10 ms without, 10 and 60 ms with it; the median of
    # all four would be 10.
    run = make_run(layout={"world_size": 2, "replica_groups": 2}, sync_interval=2)
    record = make_record([make_launch(0, [10, 5])], run)
    assert METRICS["step_ms"].values(record) == [(9.5 + 35) / 2]


def test_samples_per_second_is_the_global_batch_over_that():
    strong = make_record([make_launch(0, [10, 20])], make_run())
    weak = make_record([make_launch(0, [10, 20])], make_run(scaling="weak", layout={"world_size": 4}))
    assert METRICS["samples_per_s"].values(strong) == [8 / 0.020]
    assert METRICS["samples_per_s"].values(weak) == [4 * 4 / 0.020]


def test_a_failed_launch_has_no_value():
    assert METRICS["step_ms"].values(make_record([make_launch(0), failed_launch(1)])) == [10]
