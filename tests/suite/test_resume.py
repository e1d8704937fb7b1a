"""A sweep that is killed at any point and called again: the same records, and nothing finished is run twice.

The points are all calls that change the file system and all launches, before and after each: the sweep is
killed (SIGKILL, in a forked process) at the n-th, for every n until one comes through.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite import session, store
from suite.errors import ConfigError
from suite.launchers.base import Stopped
from suite.record import EnvironmentRecord, LaunchRecord
from suite.spec import RunSpec
from tests.helpers.records import (
    FakeLauncher,
    failed_launch,
    make_environment,
    make_launch,
    make_run,
    succeed,
)


@pytest.fixture(autouse=True)
def launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.os, "fsync", lambda handle: None)
    monkeypatch.setattr(FakeLauncher, "launched", [])
    monkeypatch.setattr(FakeLauncher, "script", succeed, raising=False)
    here_is(monkeypatch, make_environment())


def here_is(monkeypatch: pytest.MonkeyPatch, environment: EnvironmentRecord) -> None:
    monkeypatch.setattr(session, "capture", lambda run: environment)


RUNS = [
    make_run(launches=2, layout={"world_size": 2, "replica_groups": 1}),
    make_run(launches=2, layout={"world_size": 2, "replica_groups": 2}),
]


def sweep(folder: Path, resume: bool) -> list[session.Outcome]:
    def nobody(*_: object) -> None:
        pass

    return session.sweep(RUNS, folder, FakeLauncher(), nobody, nobody, resume)


def records(runs: Path) -> list[Path]:
    return sorted(runs.glob("*/*/*/record.json"))


def saved_launches(runs: Path) -> int:
    return sum(len(store.read(file).launches) for file in records(runs))


def dies_at(point: int, runs: Path) -> bool:
    """Sweeps in a forked process that is killed at this point; False where the sweep came to its end."""
    child = os.fork()
    if child == 0:
        passed = 0

        def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                nonlocal passed
                for act in (True, False):
                    if passed == point:
                        os.kill(os.getpid(), signal.SIGKILL)
                    passed += 1
                    if act:
                        result = function(*args, **kwargs)
                return result

            return call

        store.os.fsync = deadly(lambda handle: None)  # type: ignore[assignment]
        for name in ("mkdir", "rename", "replace"):
            setattr(Path, name, deadly(getattr(Path, name)))
        FakeLauncher.launch = deadly(FakeLauncher.launch)  # type: ignore[method-assign]
        try:
            sweep(runs, resume=False)
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status != 0


def test_killed_anywhere_it_goes_on_to_the_same_records(tmp_path: Path) -> None:
    point = 0
    while dies_at(point, runs := tmp_path / str(point)):
        before = saved_launches(runs)
        FakeLauncher.launched.clear()
        outcomes = sweep(runs, resume=True)
        where = f"killed at point {point} with {before} launches saved"
        assert len(FakeLauncher.launched) == 4 - before, where
        assert sum(outcome.kept for outcome in outcomes) == before, where
        found = [store.read(file) for file in records(runs)]
        assert [o.record for o in outcomes] == sorted(found, key=lambda r: r.run.layout.replica_groups), where
        assert {r.status for r in found} == {"complete"}, where
        assert [launch.index for r in found for launch in r.launches] == [0, 1, 0, 1], where
        assert not any(file.parent.name.startswith(".") for file in records(runs)), where
        point += 1
    assert point > 60, "so few points cannot be all"


def test_a_complete_sweep_is_kept_and_without_resume_measured_anew(tmp_path: Path) -> None:
    first = sweep(tmp_path, resume=False)
    FakeLauncher.launched.clear()
    again = sweep(tmp_path, resume=True)
    assert [(o.record, o.path, o.kept) for o in again] == [(o.record, o.path, 2) for o in first]
    assert FakeLauncher.launched == []
    sweep(tmp_path, resume=False)
    assert len(FakeLauncher.launched) == 4
    assert len(records(tmp_path)) == 4


def test_after_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(run: RunSpec, index: int) -> LaunchRecord:
        if index == 1:
            raise KeyboardInterrupt
        return succeed(run, index)

    monkeypatch.setattr(FakeLauncher, "script", script)
    with pytest.raises(session.Interrupted) as stopped:
        sweep(tmp_path, resume=False)
    monkeypatch.setattr(FakeLauncher, "script", succeed)
    outcomes = sweep(tmp_path, resume=True)
    assert [o.kept for o in outcomes] == [1, 0]
    assert outcomes[0].path == stopped.value.path, "it goes on in its own record"
    assert outcomes[0].record is not None
    assert outcomes[0].record.error is None


def test_a_record_with_a_failed_launch_stays_and_the_configuration_is_run_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [make_launch(0), failed_launch(1)]
    monkeypatch.setattr(FakeLauncher, "script", lambda run, index: script[index])
    sweep(tmp_path, resume=False)
    before = {file: file.read_bytes() for file in records(tmp_path)}
    monkeypatch.setattr(FakeLauncher, "script", succeed)
    assert [o.kept for o in sweep(tmp_path, resume=True)] == [0, 0]
    assert {file: file.read_bytes() for file in before} == before
    assert len(records(tmp_path)) == 4


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"host": "node1"}, [0, 0]),
        ({"versions": {"torch": "2.14.0"}}, [0, 0]),
        ({"git_commit": "decaf"}, [0, 0]),
        ({"flags": ["busy"], "git_dirty": True, "network": {"interfaces": []}}, [2, 2]),
    ],
)
def test_what_was_made_elsewhere_does_not_count(
    changes: dict[str, Any], kept: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(tmp_path, resume=False)
    here_is(monkeypatch, make_environment(**changes))
    assert [o.kept for o in sweep(tmp_path, resume=True)] == kept


def test_a_record_that_is_gone_on_with_shows_the_flags_of_both_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = store.open_run(tmp_path, RUNS[0], make_environment(flags=["busy"]))
    left.release()
    here_is(monkeypatch, make_environment(flags=["oversubscribed"]))
    record = sweep(tmp_path, resume=True)[0].record
    assert record is not None
    assert record.environment.flags == ("busy", "oversubscribed")


def test_what_still_goes_on_is_refused_before_anything_is_launched(tmp_path: Path) -> None:
    going_on = store.open_run(tmp_path, RUNS[1], make_environment())
    with pytest.raises(ConfigError, match="still running") as refused:
        sweep(tmp_path, resume=True)
    assert (refused.value.report.field, refused.value.report.value) == ("resume", str(going_on.path))
    assert FakeLauncher.launched == []
    sweep(tmp_path, resume=False)  # beside it
    assert len(records(tmp_path)) == 3


def test_two_sweeps_at_once_into_one_folder(tmp_path: Path) -> None:
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            sweep(tmp_path, resume=False)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    found = [store.read(file) for file in records(tmp_path)]
    assert [(record.status, len(record.launches)) for record in found] == [("complete", 2)] * 4
    assert len({record.run_id for record in found}) == 4


def test_damaged_records_are_passed_over(tmp_path: Path) -> None:
    sweep(tmp_path, resume=False)
    for file in records(tmp_path):
        file.write_bytes(file.read_bytes()[:-40])
    assert [o.kept for o in sweep(tmp_path, resume=True)] == [0, 0]


@pytest.mark.slow
def test_a_real_sweep_killed_with_its_ranks(tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "suite.cli.main", "sweep", "smoke", "--world-sizes", "1"),
        *("--replica-groups", "1", "--launches", "2", "--steps", "6", "--warmup-steps", "2"),
        *("--runs", str(tmp_path), "--json"),
    ]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not records(tmp_path) or saved_launches(tmp_path) == 0:
            assert first.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        first.kill()
        first.wait()
    (unfinished,) = records(tmp_path)
    launch = json.loads(unfinished.read_text())["launches"][0]
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=300, check=True)
    assert json.loads(done.stdout)["runs"][0]["launches_kept"] == 1
    (finished,) = records(tmp_path)
    record = store.read(finished)
    assert (record.status, len(record.launches)) == ("complete", 2)
    assert json.loads(finished.read_text())["launches"][0] == launch


@pytest.mark.parametrize(("start", "kept"), [("slurm", 1), ("local", 0)])
def test_another_host_of_the_same_kind_counts_in_a_job_only(
    start: str, kept: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    runs = [make_run(launcher=start)]

    def sweep_on(host: str, job: str) -> list[session.Outcome]:
        cluster = {"launcher": "slurm", "job": job, "nodes": host} if start == "slurm" else None
        here_is(monkeypatch, make_environment(host=host, cluster=cluster))
        return session.sweep(runs, tmp_path, FakeLauncher(), lambda *_: None, lambda *_: None, True)

    assert [outcome.kept for outcome in sweep_on("h1", "1")] == [0]
    assert [outcome.kept for outcome in sweep_on("h2", "2")] == [kept]


@pytest.mark.parametrize("kind", ["cancelled", "time_limit", "preempted", "node_failed"])
def test_what_slurm_ended_is_gone_on_with(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def script(run: RunSpec, index: int) -> LaunchRecord:
        if index == 1:
            raise Stopped(kind, "Job 1 was ended")
        return succeed(run, index)

    monkeypatch.setattr(FakeLauncher, "script", script)
    with pytest.raises(session.Interrupted) as ended:
        sweep(tmp_path, resume=False)
    error = ended.value.record.error
    assert error is not None
    assert (error.kind, error.message) == (kind, "Job 1 was ended in launch 2 of 2.")
    monkeypatch.setattr(FakeLauncher, "script", succeed)
    assert [outcome.kept for outcome in sweep(tmp_path, resume=True)] == [1, 0]
