from __future__ import annotations

from suite.metrics import METRICS
from tests.helpers.records import failed_launch, make_launch, make_record, make_run


def test_step_time_is_the_slowest_ranks_median_without_warm_up():
    # Per rank: median - 1, median, median, median + 50; warm-up of 99 ms.
    record = make_record([make_launch(0, [10, 12]), make_launch(1, [11, 7])])
    assert METRICS["step_ms"].values(record) == [12, 11]


def test_samples_per_second_is_the_global_batch_over_that():
    strong = make_record([make_launch(0, [10, 20])], make_run())
    weak = make_record([make_launch(0, [10, 20])], make_run(scaling="weak", layout={"world_size": 4}))
    assert METRICS["samples_per_s"].values(strong) == [8 / 0.020]
    assert METRICS["samples_per_s"].values(weak) == [4 * 4 / 0.020]


def test_a_failed_launch_has_no_value():
    assert METRICS["step_ms"].values(make_record([make_launch(0), failed_launch(1)])) == [10]
