from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from suite.data import described
from suite.errors import ConfigError
from tests.helpers.toy_data import ToySource
from tests.helpers.toy_run import toy_run


def source(told: object) -> ToySource:
    class Source(ToySource):
        def describe(self) -> Any:
            return told

    return Source(toy_run().workload, 0)


def test_numbers_of_numpy_become_pythons() -> None:
    told = described(source({"train_samples": np.int64(3), "base_rate": np.float32(0.5)}), "a:b")
    assert told == {"train_samples": 3, "base_rate": 0.5}
    assert [type(value) for value in told.values()] == [int, float]


@pytest.mark.parametrize(
    "told", [None, ["a", "list"], {"a": {1, 2}}, {(1, 2): 3}, {"split": 3}, {"file": "\udcff"}]
)
def test_what_no_record_holds_is_refused(told: object) -> None:
    with pytest.raises(ConfigError) as caught:
        described(source(told), "mine:Source")
    report = caught.value.report
    assert (report.kind, report.field, report.value) == ("bad_data", "data.source", "mine:Source")
    assert "describe()" in report.message
