from __future__ import annotations

import pytest

from suite.data import DataSource, open_source, source_class
from suite.errors import ConfigError
from suite.spec import WorkloadSpec
from tests.helpers.workloads import tiny_workload

NUMBER = 3


class Incomplete(DataSource):
    def __init__(self, workload: WorkloadSpec, seed: int) -> None: ...


class Unrelated:
    pass


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("no_such_module_here:Source", "does not import"),
        ("suite.data:Absent", "no attribute"),
        (f"{__name__}:NUMBER", "neither a DataSource nor a function"),
        (f"{__name__}:Unrelated", "neither a DataSource nor a function"),
        (f"{__name__}:Incomplete", "does not define describe, evaluation, evaluation_size, train"),
    ],
)
def test_what_is_no_source_is_refused(source: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        source_class(tiny_workload(source))
    assert caught.value.report.field == "data.source"
    assert text in caught.value.report.message


def test_a_source_is_opened_with_workload_and_seed() -> None:
    workload = tiny_workload("workloads.data.synthetic:SyntheticClicks")
    assert isinstance(open_source(workload, 3), source_class(workload))
