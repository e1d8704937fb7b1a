from __future__ import annotations

import pytest

from suite.cli.tables import interval, label, measured, number, size
from suite.statistics import Interval
from tests.helpers.records import make_run


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (7.0, "7"), (4.567, "4.57"), (45.67, "45.7"),
     (456.7, "457"), (4567.8, "4,568"), (0.012345, "0.0123")],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("value", "text"), [(5.0, "5.00"), (12.0, "12.0"), (123.4, "123"), (0.5, "0.500")])
def test_measured_values_keep_their_digits(value, text):
    assert measured(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (1000, "0.977 KiB"), (1536, "1.50 KiB"),
     (3 * 2**20, "3 MiB"), (5.5 * 2**40, "5.50 TiB")],
)  # fmt: skip
def test_bytes(value, text):
    assert size(value) == text


def test_intervals():
    assert interval(None) == "-"
    assert interval(Interval(median=5)) == "5.00"
    assert interval(Interval(median=5, low=4.5, high=12, confidence=0.75)) == "5.00 [4.50, 12.0]"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "1D T=2"),
        ({"layout": {"world_size": 4, "replica_groups": 2}}, "2D T=4 M=2"),
        ({"layout": {"world_size": 4, "replica_groups": 2}, "sync_interval": 2}, "2D T=4 M=2 k=2"),
        (
            {"layout": {"world_size": 4, "replica_groups": 2}, "sync_optimizer_state": "delayed"},
            "2D T=4 M=2 delayed",
        ),
    ],
)
def test_labels(changes, text):
    assert label(make_run(**changes)) == text
