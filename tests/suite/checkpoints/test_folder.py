"""A checkpoint is whole or refused; one that does not fit the run is refused by field. Without torch."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite import session
from suite.checkpoints import folder
from suite.errors import ConfigError
from suite.spec import RunSpec
from tests.helpers.records import make_run, other

STEP = 4


def keep(into: Path, run: RunSpec | None = None) -> Path:
    """A checkpoint with two files of nonsense."""
    temporary = folder.begin(into, STEP)
    (temporary / "__0_0.distcp").write_bytes(b"a" * 5_000)
    (temporary / ".metadata").write_bytes(b"b" * 100)
    return folder.finish(temporary, run or make_run(), STEP, 32)


def test_it_says_what_it_is_of(tmp_path: Path) -> None:
    path = keep(tmp_path)
    assert path == tmp_path / "step00000004"
    record = folder.read(path)
    assert (record.step, record.samples, record.run) == (STEP, 32, make_run())
    assert sorted(record.files) == [".metadata", "__0_0.distcp"]
    start = folder.start_from(path)
    assert (start.checkpoint, start.step, start.samples) == (str(path), STEP, 32)
    assert [p.name for p in tmp_path.iterdir()] == ["step00000004"]


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata", "checkpoint.json"])
@pytest.mark.parametrize(
    "damage",
    [shorten, flip, Path.unlink, lambda path: path.write_bytes(b"")],
    ids=["short", "bit", "no", "empty"],
)
def test_damage_is_one_clear_error(name: str, damage: Callable[[Path], Any], tmp_path: Path) -> None:
    path = keep(tmp_path)
    damage(path / name)
    with pytest.raises(ConfigError) as refused:
        folder.read(path)
    report = refused.value.report
    assert (report.field, report.value) == ("start_from", str(path))
    assert name in report.message
    assert report.remedy


def survives(point: int, into: Path) -> bool:
    """Writes a checkpoint in a forked process that is killed at the ``point``-th moment, if there is one."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    calls = 0

    def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            for act in (True, False):
                if calls == point:
                    os.kill(os.getpid(), signal.SIGKILL)
                calls += 1
                if act:
                    result = function(*args, **kwargs)
            return result

        return call

    folder.os.fsync = deadly(lambda handle: None)  # type: ignore[assignment]
    for name in ("mkdir", "rename", "chmod", "write_bytes", "open"):
        setattr(Path, name, deadly(getattr(Path, name)))
    keep(into)
    os._exit(0)


def test_killed_while_it_is_written(tmp_path: Path) -> None:
    """At every call that makes something durable, or gives it its name: before it and after it."""
    for point in range(100):
        into = tmp_path / str(point)
        whole = survives(point, into)
        if (into / "step00000004").exists():
            folder.read(into / "step00000004")
        else:
            with pytest.raises(ConfigError, match="no checkpoint"):
                folder.start_from(into / "step00000004")
        assert all(left.name.endswith(".partial") for left in into.glob(".*"))
        if whole:
            break
    assert whole
    assert point > 20


@pytest.mark.parametrize(
    ("before", "after", "field", "words"),
    [
        ({}, {"workload": other()}, "start_from", "it is of tiny"),
        ({}, {"seed": 1}, "seed", "another order"),
        ({}, {"optimizer": {"name": "sgd"}}, "optimizer.name", "another state"),
        ({}, {"optimizer": {"dense": {"name": "sgd"}}}, "optimizer.dense.name", "another state"),
        (
            {"workload": make_run().workload.model_copy(update={"tables": ()})},
            {},
            "start_from",
            "damaged",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_field(
    before: dict[str, Any], after: dict[str, Any], field: str, words: str, tmp_path: Path
) -> None:
    path = keep(tmp_path, make_run().model_copy(update=before))

    def start() -> None:
        folder.check_checkpoints(make_run(start=folder.start_from(path), **after))

    with pytest.raises(ConfigError, match=words) as refused:
        start()
    assert refused.value.report.field == field


def test_another_column_split_is_refused_by_table(tmp_path: Path) -> None:
    wide = make_run().workload.model_dump()
    for table in wide["tables"]:
        table["dim"] = 8
    wide["model"]["bottom_mlp"] = [8]
    layout = {"sharding": "column_wise", "world_size": 2}
    path = keep(tmp_path, make_run(workload=wide, layout=layout))
    run = make_run(workload=wide, layout=layout | {"world_size": 1}, start=folder.start_from(path))
    with pytest.raises(ConfigError, match="has 2 moments a row") as refused:
        folder.check_checkpoints(run)
    assert (refused.value.report.field, refused.value.report.value) == ("tables.people.column_shards", 1)
    folder.check_checkpoints(make_run(workload=wide, layout=layout, start=folder.start_from(path)))


def test_momentum_scaling_keeps_the_same_state(tmp_path: Path) -> None:
    path = keep(tmp_path)
    optimizer = {"name": "momentum_scaled_rowwise_adagrad", "scale": 2.0}
    folder.check_checkpoints(make_run(optimizer=optimizer, start=folder.start_from(path)))


def test_a_checkpoint_put_in_anothers_place(tmp_path: Path) -> None:
    path = keep(tmp_path)
    start = folder.start_from(path).model_copy(update={"step": 3})
    with pytest.raises(ConfigError, match="another was put in its place"):
        folder.check_checkpoints(make_run(start=start))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    keep(tmp_path)
    with pytest.raises(ConfigError, match="nothing is overwritten") as refused:
        folder.check_checkpoints(make_run(checkpoint={"folder": str(tmp_path), "every": 2}))
    assert refused.value.report.value == str(tmp_path / "step00000004")
    folder.check_checkpoints(make_run(checkpoint={"folder": str(tmp_path), "every": 3}))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"launches": 2, "checkpoint": {"folder": "x", "every": 2}}, "launches"),
        ({"checkpoint": {"folder": "x", "every": 7}}, "checkpoint.every"),
        (
            {
                "checkpoint": {"folder": "x", "every": 3},
                "sync_interval": 2,
                "layout": {"world_size": 2, "replica_groups": 2},
            },
            "checkpoint.every",
        ),
        ({"checkpoint": {"folder": "", "every": 3}}, "checkpoint.folder"),
        ({"checkpoint": {"folder": "x", "every": 0}}, "checkpoint.every"),
    ],
)
def test_checkpoints_that_make_no_sense(changes: dict[str, Any], field: str) -> None:
    from suite.spec import validated

    with pytest.raises(ConfigError) as refused:
        validated(RunSpec, dict(make_run()) | changes)
    assert refused.value.report.field == field


def test_an_implementation_without_checkpoints_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not define checkpoint_state") as refused:
        session.check(make_run(checkpoint={"folder": str(tmp_path), "every": 3}))
    assert refused.value.report.field == "implementation"


def test_a_folder_names_the_checkpoints_in_it(tmp_path: Path) -> None:
    path = keep(tmp_path)
    for wrong in (tmp_path, tmp_path / "step00000005"):
        with pytest.raises(ConfigError, match="no checkpoint") as refused:
            folder.start_from(wrong)
        assert str(path) in str(refused.value.report.remedy)


def test_the_manifest_is_one_that_people_can_read(tmp_path: Path) -> None:
    manifest = json.loads((keep(tmp_path) / "checkpoint.json").read_text())
    assert (manifest["step"], manifest["run"]["workload"]["name"]) == (STEP, "tiny")
