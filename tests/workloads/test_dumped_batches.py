"""What the README says of dumped batches, done: another job's batches are dumped and trained on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torchrec.datasets.utils import Batch
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

import workloads
from suite.catalog import load_workload
from suite.data import source_class
from suite.errors import ConfigError
from suite.launchers.local import LocalLauncher
from suite.spec import DataSpec, RunSpec, TableSpec, WorkloadSpec, validated

README = Path(workloads.__file__).parent / "README.md"


def shown(language: str) -> str:
    """The README's block in a language that is about dumped batches."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if "my_dump" in block)
    return block


def loader() -> Iterator[Batch]:
    """Somebody's: 1 to 60 samples a batch, ids int32 on even ones; a click where the user is even."""
    draw = torch.Generator().manual_seed(0)
    for number in range(30):
        size = 1 + (number * 7) % 60
        user = torch.randint(0, 40, (size,), generator=draw)
        tags = torch.randint(0, 4, (size,), generator=draw)
        ids = torch.cat([user, torch.randint(0, 25, (int(tags.sum()),), generator=draw)])
        yield Batch(
            dense_features=torch.randn(size, 3, generator=draw),
            sparse_features=KeyedJaggedTensor.from_lengths_sync(
                keys=["user", "tags"],
                values=ids.int() if number % 2 == 0 else ids,
                lengths=torch.cat([torch.ones(size, dtype=torch.int64), tags]),
            ),
            labels=(user % 2 == 0).int(),
        )


def dumped_workload() -> WorkloadSpec:
    smoke = load_workload("smoke")
    return smoke.model_copy(
        update={
            "model": smoke.model.model_copy(update={"dense_features": 3}),
            "tables": (
                TableSpec(name="user_table", rows=40, dim=16, features=("user",)),
                TableSpec(name="tags_table", rows=25, dim=16, features=("tags",), pooling="mean"),
            ),
            "data": validated(DataSpec, tomllib.loads(shown("toml"))["data"]),
            "batch": smoke.batch.model_copy(update={"global_size": 61}),
        }
    )


def test_dumped_batches_train_in_2d(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_dump").mkdir()
    exec(shown("python"), {"loader": loader()})
    workload = dumped_workload()
    source_class(workload).check(workload)
    run = validated(
        RunSpec,
        {
            "workload": workload,
            "layout": {"world_size": 2, "replica_groups": 2},
            "steps": 30,
            "warmup_steps": 4,
        },
    )
    record = LocalLauncher().launch(run, 0, tmp_path, lambda progress: None)
    assert record.error is None, record.error
    assert record.data["source"] == "30 dumped batches"
    assert record.quality is not None
    assert record.quality.samples == 100
    # Forty users, each seen about forty times: it is learnt by heart.
    assert record.quality.auc is not None
    assert record.quality.auc > 0.9


def test_a_dumped_id_outside_its_table_ends_before_the_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_dump").mkdir()
    exec(shown("python"), {"loader": loader()})
    workload = dumped_workload()
    small = workload.tables[0].model_copy(update={"rows": 39})
    workload = workload.model_copy(update={"tables": (small, workload.tables[1])})
    with pytest.raises(ConfigError, match="feature 'user' has id 39"):
        source_class(workload).check(workload)
