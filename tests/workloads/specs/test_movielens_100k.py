"""Quality on real ranks: slow, run by ``make test-slow``."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.catalog import load_workload
from suite.errors import ConfigError
from suite.launchers.local import LocalLauncher
from suite.spec import RunSpec, validated
from workloads.specs.movielens_100k import movielens_100k


def test_features_and_split_are_parameters_of_the_100k() -> None:
    whole, one_hot = load_workload("movielens_100k"), load_workload("movielens_100k,features=one_hot")
    assert [table.name for table in whole.tables if table not in one_hot.tables] == ["genres"]
    other = load_workload("movielens_100k,split_seed=1")
    assert other.data.options == {"threshold": 4, "split_seed": 1}
    assert len({whole.spec_hash, one_hot.spec_hash, other.spec_hash}) == 3
    for wrong, field in (("features=two", "features"), ("size=1m,split_seed=1", "size")):
        with pytest.raises(ConfigError) as refused:
            load_workload(f"movielens_100k,{wrong}")
        assert refused.value.report.field == f"workload.{field}"


@pytest.mark.slow
@pytest.mark.parametrize("replica_groups", [1, 2, 4])
def test_auc_after_three_epochs_on_four_ranks(replica_groups: int, tmp_path: Path) -> None:
    workload = movielens_100k()
    defaults = workload.defaults
    run = validated(
        RunSpec,
        {
            "workload": workload,
            "layout": {"world_size": 4, "replica_groups": replica_groups},
            "optimizer": defaults.optimizer,
            "steps": defaults.steps,
            "warmup_steps": defaults.warmup_steps,
        },
    )
    record = LocalLauncher().launch(run, 0, tmp_path, lambda progress: None)
    assert record.quality is not None, record.error
    assert record.quality.samples == 20_000
    # 0.785 with a standard deviation over seeds of 0.001 in 1D; five of them either way.
    assert record.quality.auc == pytest.approx(0.785, abs=0.005)
