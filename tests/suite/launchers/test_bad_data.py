"""Data that turns out wrong in the middle of training, on one of real ranks."""

from __future__ import annotations

from pathlib import Path

from suite.launchers.local import LocalLauncher
from tests.helpers.toy_run import toy_run


def test_an_id_outside_its_table_is_named_by_rank_and_feature(tmp_path: Path) -> None:
    """FBGEMM would read whatever lies there. Step 4 takes samples 36 to 44, rank 0 the first four."""
    run = toy_run().model_dump()
    run["workload"]["data"]["source"] = "tests.helpers.toy_data:OneWrongId"
    record = LocalLauncher().launch(toy_run(**run), 0, tmp_path, lambda progress: None)
    error = record.error
    assert error is not None
    assert (error.kind, error.field, error.rank) == ("bad_data", "tables.products.rows", 1)
    assert f"id {2**40} for feature 'item'" in error.message
    assert error.remedy is not None
    assert record.ranks == ()
