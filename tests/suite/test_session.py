from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from suite import environment, session, store
from suite.errors import ConfigError, ErrorReport, RunFailed
from suite.record import LaunchRecord
from suite.spec import RunSpec
from tests.helpers.records import FakeLauncher, failed_launch, make_launch, make_run, succeed

FAKES = "tests.helpers.records"


@pytest.fixture(autouse=True)
def launcher(monkeypatch: pytest.MonkeyPatch) -> FakeLauncher:
    monkeypatch.setattr(FakeLauncher, "launched", [])
    monkeypatch.setattr(FakeLauncher, "script", succeed, raising=False)
    monkeypatch.setattr(environment, "BUSY_WINDOW_S", 0.01)
    monkeypatch.setattr(session, "SWEEP_1D", f"{FAKES}:OneGroup")
    return FakeLauncher()


def scripted(monkeypatch: pytest.MonkeyPatch, *parts: Any) -> None:
    """What becomes of launch 0, 1, ...: a record, or an exception."""

    def script(run: RunSpec, index: int) -> LaunchRecord:
        if isinstance(parts[index], BaseException):
            raise parts[index]
        return parts[index]

    monkeypatch.setattr(FakeLauncher, "script", script)


def run_one(runs: Path, **changes: Any) -> Any:
    return session.run_one(make_run(**changes), runs, FakeLauncher(), lambda progress: None)


def records(runs: Path) -> list[Path]:
    return list(runs.glob("*/*/*/record.json"))


def test_every_launch_is_saved_and_the_record_complete(tmp_path):
    record, path = run_one(tmp_path, launches=3)
    assert record.status == "complete"
    assert [launch.index for launch in record.launches] == [0, 1, 2]
    assert store.read(path / "record.json") == record
    assert (path / "logs" / "launch2" / "rank0.log").read_text() == "hello\n"
    assert record.environment.cores >= 1


def test_a_launch_is_on_disk_before_the_next_begins(tmp_path, monkeypatch):
    saved = []

    def script(run: RunSpec, index: int) -> LaunchRecord:
        (file,) = records(tmp_path)
        saved.append(len(store.read(file).launches))
        return make_launch(index)

    monkeypatch.setattr(FakeLauncher, "script", script)
    run_one(tmp_path, launches=3)
    assert saved == [0, 1, 2]


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ([failed_launch(0)], "failed"),
        ([make_launch(0), failed_launch(1)], "partial"),
    ],
)
def test_a_failed_launch_ends_the_run_and_keeps_the_record(script, status, tmp_path, monkeypatch):
    scripted(monkeypatch, *script)
    record, path = run_one(tmp_path, launches=4)
    assert record.status == status
    assert record.launches == tuple(script)
    assert record.error == script[-1].error
    assert store.read(path / "record.json") == record
    assert len(FakeLauncher.launched) == len(script)


@pytest.mark.parametrize(
    ("script", "status", "kept"),
    [([KeyboardInterrupt()], "failed", 0), ([make_launch(0), KeyboardInterrupt()], "partial", 1)],
)
def test_control_c_keeps_finished_launches_and_goes_on_up(script, status, kept, tmp_path, monkeypatch):
    scripted(monkeypatch, *script)
    with pytest.raises(KeyboardInterrupt) as raised:
        run_one(tmp_path, launches=3)
    assert isinstance(raised.value, session.Interrupted)
    record = store.read(raised.value.path / "record.json")
    assert record == raised.value.record
    assert (record.status, len(record.launches)) == (status, kept)
    assert record.error is not None
    assert record.error.kind == "interrupted"
    assert f"in launch {kept + 1} of 3" in record.error.message
    assert not raised.value.path.name.startswith(".")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"implementation": "no_such"}, "implementation"),
        ({"implementation": f"{FAKES}:NoSuch"}, "implementation"),
        ({"implementation": f"{FAKES}:FakeLauncher"}, "implementation"),
        (
            {"implementation": f"{FAKES}:OneGroup", "layout": {"world_size": 2, "replica_groups": 2}},
            "layout.replica_groups",
        ),
        ({"device": "cuda", "layout": {"world_size": 64}}, "device"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_made(changes, field, tmp_path):
    with pytest.raises(ConfigError) as raised:
        run_one(tmp_path / "runs", **changes)
    assert raised.value.report.field == field
    assert not (tmp_path / "runs").exists()
    assert FakeLauncher.launched == []


def test_a_data_source_refuses_before_anything_is_made(tmp_path):
    workload = make_run().workload
    nothing = workload.model_copy(
        update={"data": workload.data.model_copy(update={"source": f"{FAKES}:FakeLauncher"})}
    )
    with pytest.raises(ConfigError) as raised:
        run_one(tmp_path / "runs", workload=nothing)
    assert raised.value.report.field == "data.source"
    assert not (tmp_path / "runs").exists()


def layouts(runs: list[RunSpec]) -> list[tuple[int, int, str]]:
    return [(r.layout.world_size, r.layout.replica_groups, r.implementation.rpartition(":")[2]) for r in runs]


def test_a_sweep_takes_the_groups_that_divide_each_world_size_and_1d_for_one_group():
    runs = session.plan_sweep(make_run(), [1, 2, 4], [1, 2, 4])
    assert layouts(runs) == [
        (1, 1, "OneGroup"),
        (2, 1, "OneGroup"),
        (2, 2, "Anything"),
        (4, 1, "OneGroup"),
        (4, 2, "Anything"),
        (4, 4, "Anything"),
    ]
    assert {run.workload.spec_hash for run in runs} == {make_run().workload.spec_hash}


def test_a_sweep_leaves_out_a_world_size_that_no_group_number_divides():
    assert layouts(session.plan_sweep(make_run(), [1, 2, 3], [2])) == [(2, 2, "Anything")]


def test_in_a_sweep_the_sync_schedule_is_for_2d_alone():
    base = make_run(sync_interval=2, sync_optimizer_state="delayed")
    runs = session.plan_sweep(base, [2], [1, 2])
    assert [(run.sync_interval, run.sync_optimizer_state) for run in runs] == [
        (1, "immediate"),
        (2, "delayed"),
    ]


@pytest.mark.parametrize(
    ("sizes", "groups", "field", "value", "words"),
    [
        ([2, 4], [1, 3], "replica_groups", 3, "divides none"),
        ([2, 2], [1], "world_sizes", 2, "twice"),
        ([2], [1, 1], "replica_groups", 1, "twice"),
        ([0, 2], [1], "world_sizes", 0, "at least 1"),
        ([2], [-1], "replica_groups", -1, "at least 1"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(sizes, groups, field, value, words):
    with pytest.raises(ConfigError, match=re.escape(words)) as raised:
        session.plan_sweep(make_run(), sizes, groups)
    assert (raised.value.report.field, raised.value.report.value) == (field, value)


def sweep(runs: list[RunSpec], folder: Path) -> tuple[list[session.Outcome], list[Any]]:
    told: list[Any] = []
    outcomes = session.sweep(
        runs, folder, FakeLauncher(), lambda i, progress: None, lambda i, outcome: told.append((i, outcome))
    )
    return outcomes, told


def test_all_configurations_are_checked_before_the_first_is_launched(tmp_path):
    runs = [make_run(), make_run(implementation="no_such")]
    with pytest.raises(ConfigError):
        sweep(runs, tmp_path / "runs")
    assert FakeLauncher.launched == []
    assert not (tmp_path / "runs").exists()


def test_a_configuration_that_fails_does_not_keep_the_others_from_running(tmp_path, monkeypatch):
    def script(run: RunSpec, index: int) -> LaunchRecord:
        return failed_launch() if run.layout.world_size == 2 else succeed(run, index)

    monkeypatch.setattr(FakeLauncher, "script", script)
    runs = session.plan_sweep(make_run(), [1, 2, 4], [1])
    outcomes, told = sweep(runs, tmp_path)
    assert [o.record.status for o in outcomes if o.record] == ["complete", "failed", "complete"]
    assert outcomes[1].error == failed_launch().error
    assert told == list(enumerate(outcomes))
    assert len(records(tmp_path)) == 3


def test_a_record_that_cannot_be_saved_does_not_keep_the_others_from_running(tmp_path, monkeypatch):
    lost = RunFailed(ErrorReport(kind="cannot_save", message="No space left on device."))
    save = store.RunFolder.save_launch

    def saving(self: store.RunFolder, launch: LaunchRecord) -> None:
        if len(FakeLauncher.launched) == 1:
            raise lost
        save(self, launch)

    monkeypatch.setattr(store.RunFolder, "save_launch", saving)
    outcomes, _ = sweep(session.plan_sweep(make_run(), [1, 2], [1]), tmp_path)
    assert outcomes[0].record is None
    assert outcomes[0].error == lost.report
    assert outcomes[1].record is not None


def test_control_c_ends_a_sweep_and_keeps_its_records(tmp_path, monkeypatch):
    def script(run: RunSpec, index: int) -> LaunchRecord:
        if run.layout.world_size == 2:
            raise KeyboardInterrupt
        return succeed(run, index)

    monkeypatch.setattr(FakeLauncher, "script", script)
    with pytest.raises(session.Interrupted) as raised:
        sweep(session.plan_sweep(make_run(), [1, 2, 4], [1]), tmp_path)
    told = raised.value.record.error
    assert told is not None
    assert "1 configuration finished" in told.message
    assert "--resume" in (told.remedy or "")
    assert sorted(store.read(file).status for file in records(tmp_path)) == ["complete", "failed"]
    assert len(FakeLauncher.launched) == 2
