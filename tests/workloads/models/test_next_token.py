from __future__ import annotations

from typing import Any

import pytest
import torch

from suite.catalog import load_workload
from suite.errors import ConfigError
from suite.implementations.model import build_model
from suite.spec import WorkloadSpec
from workloads.specs.lm_vocabulary import lm_vocabulary

CPU = torch.device("cpu")


def with_table(**changes: Any) -> WorkloadSpec:
    workload = lm_vocabulary()
    table = workload.tables[0].model_copy(update=changes)
    return workload.model_copy(update={"tables": (table,)})


def test_the_model_is_as_small_as_the_workload_says() -> None:
    model = build_model(lm_vocabulary(), 0, CPU)
    dense = [p.numel() for p in model.parameters() if p.device.type != "meta"]
    assert sum(dense) == 256 * 128 + 128 + 128 * 64 + 64 == 41_152
    assert load_workload("lm_vocabulary,row_factor=4").tables[0].rows == 1_024_000


@pytest.mark.parametrize(
    ("workload", "field"),
    [
        (with_table(pooling="sum"), "tables"),
        (with_table(features=("context",)), "tables"),
        (with_table(dim=32), "model.over_mlp"),
    ],
)
def test_a_workload_that_does_not_fit_is_refused(workload: WorkloadSpec, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_model(workload, 0, CPU)
    assert caught.value.report.field == field
