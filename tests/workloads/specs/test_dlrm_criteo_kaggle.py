from __future__ import annotations

import pytest

from suite.catalog import load_workload


def test_the_whole_is_the_size_that_dlrm_finds() -> None:
    whole = load_workload("dlrm_criteo_kaggle,row_factor=1")
    assert sum(table.rows for table in whole.tables) == 33_762_577
    assert whole.features == tuple(f"cat_{number}" for number in range(26))


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ("", "dlrm_criteo_kaggle"),
        (",data=criteo_kaggle", "dlrm_criteo_kaggle_on_criteo_kaggle"),
        (",data=criteo_kaggle,row_factor=1", "dlrm_criteo_kaggle_rows_1_on_criteo_kaggle"),
        (",data=criteo_kaggle,frequency_threshold=3", "dlrm_criteo_kaggle_on_criteo_kaggle_from_3"),
        (",data=criteo_1tb,days=2", "dlrm_criteo_kaggle_on_criteo_1tb_2_days"),
        (",global_batch=4096", "dlrm_criteo_kaggle_batch_4096"),
    ],
)
def test_what_is_not_the_default_is_in_the_name_and_the_hash(parameters: str, name: str) -> None:
    workload = load_workload(f"dlrm_criteo_kaggle{parameters}")
    assert workload.name == name
    assert (workload.spec_hash == load_workload("dlrm_criteo_kaggle").spec_hash) == (not parameters)
