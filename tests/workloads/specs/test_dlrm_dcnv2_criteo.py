from __future__ import annotations

import pytest

from suite.catalog import load_workload
from suite.errors import ConfigError
from workloads.specs.dlrm_dcnv2_criteo import dlrm_dcnv2_criteo


def test_at_factor_1_the_tables_are_mlperfs() -> None:
    """Sums that MLPerf's README does not state, worked out from its two lists by hand."""
    full = dlrm_dcnv2_criteo(row_factor=1.0)
    assert len(full.tables) == 26
    assert sum(t.rows for t in full.tables) == 204_184_588
    assert sum(t.pooling_factor for t in full.tables) == 214
    assert {t.dim for t in full.tables} == {128}
    assert [t.rows for t in full.tables if t.pooling_factor in (100, 27, 12)] == [40_000_000] * 3
    assert full.name == "dlrm_dcnv2_criteo_rows_1"


def test_the_default_is_for_a_laptop() -> None:
    small = load_workload("dlrm_dcnv2_criteo")
    assert sorted({t.rows for t in small.tables}) == [3, 4, 10, 14, 36, 63, 108, 155, 976, 1_000, 10_000]
    assert sum(4 * t.rows * t.dim for t in small.tables) < 40e6
    assert small.model == dlrm_dcnv2_criteo(row_factor=1.0).model


def test_factor_and_batch_are_told_by_name_and_hash() -> None:
    names = [
        "dlrm_dcnv2_criteo",
        "dlrm_dcnv2_criteo,row_factor=0.01",
        "dlrm_dcnv2_criteo,row_factor=0.01,global_batch=65536",
    ]
    specs = [load_workload(name) for name in names]
    assert [s.name for s in specs] == [
        "dlrm_dcnv2_criteo",
        "dlrm_dcnv2_criteo_rows_0_01",
        "dlrm_dcnv2_criteo_rows_0_01_batch_65536",
    ]
    assert len({s.spec_hash for s in specs}) == 3
    assert specs[2].batch.global_size == 65_536


@pytest.mark.parametrize(
    ("parameters", "field"),
    [("row_factor=0", "workload.row_factor"), ("global_batch=0", "global_size"), ("row_factor=1e9", "rows")],
)
def test_a_wrong_parameter_is_named(parameters: str, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_workload(f"dlrm_dcnv2_criteo,{parameters}")
    assert caught.value.report.field == field
