from __future__ import annotations

import pytest

from suite.metrics import METRICS
from suite.metrics.components import component_figure, fused_split
from tests.helpers.records import make_launch, make_profile, make_record, make_run, with_profiles


def test_all_are_of_the_rank_whose_plain_steps_are_longest() -> None:
    """Rank 1, although its profiled steps are the shorter ones."""
    launch = with_profiles(make_launch(0, [10.0, 20.0]), [make_profile([90.0]), make_profile([30.0])])
    record = make_record([launch])
    assert METRICS["components.lookup.exposed_ms"].values(record) == [pytest.approx(3)]
    assert METRICS["profiling_cost"].values(record) == [pytest.approx(1.5)]


def test_a_launch_without_profile_has_no_components() -> None:
    record = make_record([make_launch()])
    assert METRICS["components.lookup.exposed_ms"].values(record) == []
    assert METRICS["rollups.optimizer"].values(record) == []
    assert METRICS["profiling_cost"].values(record) == []


def test_steps_with_and_without_a_sync_are_taken_apart() -> None:
    steps = make_profile([10.0, 50.0, 12.0, 54.0]).steps
    assert component_figure(steps, "lookup", "exposed_ms", 2) == pytest.approx((1.1 + 5.2) / 2)
    assert component_figure(steps, "input_dist", "bytes", 2) == 100
    assert component_figure(steps, "lookup", "bytes", 2) is None
    assert make_run().sync_interval == 1


def test_the_split_is_a_difference_with_its_spread() -> None:
    # make_profile has a fifth of a step busy: 20, 22 and 24 ms.
    profile = make_profile([100.0, 110.0, 120.0])
    assert fused_split(profile) is None
    found = fused_split(profile.model_copy(update={"plain_sgd_ms": (15.0, 15.0, 15.0)}))
    assert found is not None
    assert (found.optimizer_ms, found.backward_ms) == (pytest.approx(7), pytest.approx(15))
    assert found.low == pytest.approx(5)
    assert found.high == pytest.approx(9)
