"""Submitting and following, with a Slurm that is made of functions; the real one is in tests/ci."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from suite import environment, submission
from suite.errors import ConfigError
from suite.launchers.base import Stopped
from suite.launchers.slurm_commands import JobState, NoController, SlurmError
from suite.session import Outcome
from suite.store import open_run
from suite.submission import JOB, LOG, TOLD, Request, SubmittedJob, sbatch_options, sweep
from tests.helpers.records import make_environment, make_launch, make_run

RUNS = [
    make_run(launcher="slurm", layout={"world_size": 2, "ranks_per_host": 2}),
    make_run(launcher="slurm", layout={"world_size": 4, "replica_groups": 2, "ranks_per_host": 2}),
]


class FakeSlurm:
    """``states`` are what a job is in, look by look; ``finishes`` of its runs finish while it is running."""

    def __init__(self, states: Sequence[str], finishes: int) -> None:
        self.states = list(states)
        self.finishes = finishes
        self.refuses: SlurmError | None = None
        self.submitted: list[list[str]] = []
        self.cancelled: list[str] = []
        self.folder = Path()

    def command(self, *words: str) -> str:
        if self.refuses is not None and words[0] == "sbatch":
            raise self.refuses
        return ""

    def submit(self, options: Sequence[str], script: str, variables: object) -> str:
        self.submitted.append(list(options))
        self.folder = Path(script).parent
        return str(len(self.submitted))

    def job_state(self, job: str) -> JobState:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if state == "ctrl-c":
            raise KeyboardInterrupt
        if state == "RUNNING":
            self._run()
        name, _, reason = state.partition(" ")
        return JobState(name, reason, "h[1-2]" if name == "RUNNING" else "", 1, 60)

    def why_ended(self, job: str) -> tuple[str, str] | None:
        return ("time_limit", "Job 1 was over its time limit") if self.states == ["TIMEOUT"] else None

    def cancel(self, *ids: str) -> None:
        self.cancelled += ids
        self.states = ["CANCELLED"]

    def _run(self) -> None:
        """As suite.submitted does, but at once."""
        job = SubmittedJob.model_validate_json((self.folder / JOB).read_text())
        lines: list[dict[str, Any]] = []
        for place, run in enumerate(job.runs[: self.finishes]):
            lines.append({"progress": [place, 0, "train", 6, 6]})
            folder = open_run(job.runs_dir, run, make_environment())
            folder.save_launch(make_launch(step_ms=[10.0] * run.layout.world_size))
            _, path = folder.finish("complete", None)
            lines.append({"outcome": str(path), "place": place, "error": None, "kept": 0})
        if self.finishes == len(job.runs):
            lines.append({"end": True})
        (self.folder / TOLD).write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.finishes = 0


Told = list[tuple[Any, ...]]


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """``following(states, finishes)``: outcomes, what was told, and the fake."""
    monkeypatch.setattr(submission, "LOOK_S", 0.0)
    monkeypatch.setattr(environment, "BUSY_WINDOW_S", 0.01)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)

    def follow(slurm: FakeSlurm, request: Request | None = None) -> tuple[list[Outcome], Told]:
        for name in ("command", "submit", "job_state", "why_ended", "cancel"):
            monkeypatch.setattr(submission, name, getattr(slurm, name))
        told: Told = []
        outcomes = sweep(
            RUNS,
            tmp_path,
            request or Request(),
            lambda place, progress: told.append((place, progress.phase, progress.step)),
            lambda place, outcome: told.append((place, outcome.error and outcome.error.kind)),
            lambda text: told.append((text,)),
        )
        return outcomes, told

    return follow


def test_a_job_that_comes_to_its_end(following: Any) -> None:
    slurm = FakeSlurm(["PENDING Priority", "PENDING Resources", "RUNNING", "COMPLETED"], finishes=2)
    outcomes, told = following(slurm)
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert [outcome.record.run for outcome in outcomes] == RUNS
    assert told == [
        ("job 1: pending (Priority)",),
        ("job 1: pending (Resources)",),
        ("job 1: running on h[1-2]",),
        (0, "train", 6),
        (0, None),
        (1, "train", 6),
        (1, None),
    ]


def test_what_a_job_did_not_come_to(following: Any) -> None:
    outcomes, told = following(FakeSlurm(["RUNNING", "TIMEOUT"], finishes=1))
    assert outcomes[0].error is None
    error = outcomes[1].error
    assert error.kind == "time_limit"
    assert "--resume" in error.remedy
    assert "--slurm-time" in error.remedy
    assert told[-1] == (1, "time_limit")


def test_a_job_that_breaks_down(following: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm(["RUNNING", "FAILED"], finishes=0)

    def break_down() -> None:
        (slurm.folder / LOG).write_text("Traceback\nModuleNotFoundError: No module named 'suite'\n\n")
        (slurm.folder / TOLD).write_text('{"end": true}\n')

    monkeypatch.setattr(slurm, "_run", break_down)
    outcomes, _ = following(slurm)
    error = outcomes[0].error
    assert error.kind == "launch_failed"
    assert "No module named 'suite'" in error.message
    assert error.log == str(slurm.folder / LOG)


def test_one_job_for_each_run_never_beside_each_other(following: Any) -> None:
    slurm = FakeSlurm(["TIMEOUT"], finishes=0)
    following(slurm, Request(jobs="run"))
    assert [options[0] for options in slurm.submitted] == ["--nodes=1", "--nodes=2"]
    assert all("--dependency=singleton" in options for options in slurm.submitted)


def test_ctrl_c_cancels(following: Any) -> None:
    slurm = FakeSlurm(["RUNNING", "ctrl-c"], finishes=0)
    with pytest.raises(Stopped) as stopped:
        following(slurm)
    assert (stopped.value.kind, slurm.cancelled) == ("interrupted", ["1"])


def test_what_slurm_refuses_is_not_submitted(following: Any, tmp_path: Path) -> None:
    slurm = FakeSlurm([], finishes=0)
    slurm.refuses = SlurmError("Requested node configuration is not available")
    with pytest.raises(ConfigError) as caught:
        following(slurm)
    report = caught.value.report
    assert (report.kind, report.field) == ("impossible_request", "slurm")
    assert "Requested node configuration is not available" in report.message
    assert "--nodes=2" in str(report.value)
    assert slurm.submitted == []
    assert os.listdir(tmp_path) == []


def test_where_no_controller_answers_that_is_said(following: Any) -> None:
    slurm = FakeSlurm([], finishes=0)
    slurm.refuses = NoController("fetch_config: DNS SRV lookup failed")
    with pytest.raises(ConfigError, match="no Slurm controller answers") as caught:
        following(slurm)
    report = caught.value.report
    assert (report.kind, report.field, report.value) == ("environment", "launcher", "slurm")
    assert "--launcher local" in str(report.remedy)


def test_what_would_never_start_is_cancelled(following: Any) -> None:
    slurm = FakeSlurm(["PENDING PartitionTimeLimit"], finishes=0)
    with pytest.raises(ConfigError) as caught:
        following(slurm)
    assert "PartitionTimeLimit" in caught.value.report.message
    assert slurm.cancelled[0] == "1"


def test_what_the_job_refuses_is_told_as_here(following: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm(["RUNNING"], finishes=0)
    report = ConfigError("device", "cuda", "no GPUs.", "Use others.").report

    def refuse() -> None:
        (slurm.folder / TOLD).write_text(json.dumps({"refused": report.model_dump(mode="json")}) + "\n")

    monkeypatch.setattr(slurm, "_run", refuse)
    with pytest.raises(ConfigError) as caught:
        following(slurm)
    assert caught.value.report == report


def test_the_request_as_options() -> None:
    request = Request(
        partition="gpu", account="me", time="30", gpus_per_node="a100:4", options=("--qos=low",)
    )
    assert sbatch_options(RUNS, request) == [
        "--nodes=2",
        "--ntasks-per-node=2",
        "--job-name=sparse2d",
        "--no-requeue",
        "--partition=gpu",
        "--account=me",
        "--time=30",
        "--gpus-per-node=a100:4",
        "--qos=low",
    ]
