"""Submitting configurations to Slurm as batch jobs, and following them until their end.

A job runs, inside its allocation, what ``sweep`` runs here (``suite/submitted.py``): it writes the records
itself, so that nothing is lost when this process or its terminal goes. This process shows what the queue and
the job say, cancels on Ctrl-C, and reads the records at the end. The two talk through a folder beside the
runs, which must be on a file system that the hosts share.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from suite.errors import ConfigError, ErrorReport
from suite.launchers.base import Progress, Stopped
from suite.launchers.deadlines import SHARED_FILES_S
from suite.launchers.exchange import importable
from suite.launchers.slurm_commands import (
    JobState,
    NoController,
    SlurmError,
    cancel,
    command,
    job_state,
    submit,
    why_ended,
)
from suite.resume import ENDED
from suite.session import Outcome, check
from suite.spec import Frozen, RunSpec
from suite.store import RECORD, read

#: Between two looks at the queue and at what jobs have told.
LOOK_S = 1.0
#: The controller may be restarted meanwhile; after this long without an answer a job is given up.
UNANSWERED_S = 120.0
#: For a cancelled job to write what it has.
CANCELLED_S = 40.0
#: Remedy of what a job did not come to.
RESUME = "Finished configurations are kept; the same command with --resume runs the others."

#: The module that runs in a job; it is given the folder.
JOB_MODULE = "suite.submitted"
SCRIPT, JOB, TOLD, LOG = "job.sh", "job.json", "told.jsonl", "job.log"


class Request(Frozen):
    """What is asked of Slurm, beside nodes and tasks, which follow from T and the ranks a host.

    ``options`` are further options of sbatch, as they stand on its command line.
    """

    partition: str | None = None
    account: str | None = None
    time: str | None = None
    gpus_per_node: str | None = None
    options: tuple[str, ...] = ()
    jobs: Literal["sweep", "run"] = "sweep"


class SubmittedJob(Frozen):
    """What a job is told to do."""

    runs: tuple[RunSpec, ...]
    runs_dir: Path
    resume: bool


@dataclass
class _Followed:
    """A job that is followed. ``places``: of its runs in the sweep."""

    places: list[int]
    runs: list[RunSpec]
    folder: Path
    id: str
    read: int = 0
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    shown: str = ""
    answered_at: float = field(default_factory=time.monotonic)


def sweep(
    runs: Sequence[RunSpec],
    runs_dir: Path,
    request: Request,
    on_progress: Callable[[int, Progress], None],
    on_outcome: Callable[[int, Outcome], None],
    on_state: Callable[[str], None],
    resume: bool = False,
) -> list[Outcome]:
    """As ``suite.session.sweep``, in one job or in one for each configuration.

    ``on_state`` is told, in words, what becomes of a job in the queue.

    Raises:
        ConfigError: one of the configurations cannot run, or Slurm can never start its job.
        Stopped: Ctrl-C; the jobs are cancelled, the records are kept.
    """
    for run in runs:
        check(run)
    shares = [[place] for place in range(len(runs))] if request.jobs == "run" else [[*range(len(runs))]]
    for share in shares:
        _try(sbatch_options([runs[place] for place in share], request))
    jobs: list[_Followed] = []
    outcomes: list[Outcome] = []
    try:
        for share in shares:
            jobs.append(_submit(share, [runs[place] for place in share], runs_dir, request, resume))
        for job in jobs:
            outcomes += _follow(job, on_progress, on_outcome, on_state)
    except KeyboardInterrupt:
        _cancel([job for job in jobs if len(job.outcomes) < len(job.runs)], on_state)
        ids = ", ".join(job.id for job in jobs)
        raise Stopped("interrupted", f"Stopped by the user; cancelled in Slurm: {ids}") from None
    except ConfigError:
        _cancel(jobs, on_state)
        raise
    return outcomes


def sbatch_options(runs: Sequence[RunSpec], request: Request) -> list[str]:
    """The options of a job that runs these configurations one after the other."""
    on_host = [run.layout.ranks_per_host or run.layout.world_size for run in runs]
    nodes = max(run.layout.world_size // each for run, each in zip(runs, on_host, strict=True))
    given = {
        "--partition": request.partition,
        "--account": request.account,
        "--time": request.time,
        "--gpus-per-node": request.gpus_per_node,
    }
    return [
        f"--nodes={nodes}",
        f"--ntasks-per-node={max(on_host)}",
        "--job-name=sparse2d",
        # Run again from its start, a job would measure again what it has measured.
        "--no-requeue",
        *(f"{name}={value}" for name, value in given.items() if value is not None),
        *request.options,
    ]


def _try(options: list[str]) -> None:
    """Refuses what Slurm would refuse, before anything is submitted."""
    try:
        command("sbatch", "--test-only", *options, "--wrap=true")
    except SlurmError as error:
        raise _impossible(error, options) from error


def _impossible(error: SlurmError, options: list[str]) -> ConfigError:
    said, asked = str(error), " ".join(options)
    if isinstance(error, NoController):
        return ConfigError(
            "launcher",
            "slurm",
            f"no Slurm controller answers: {said}.",
            "Run it on a cluster's login node, or use --launcher local.",
            kind="environment",
        )
    remedy = "Change the --slurm options, the world sizes or --ranks-per-host; `sinfo` shows what there is."
    if "not installed" in said:
        remedy = "Run it where sbatch is, inside an allocation, or with --launcher local."
    return ConfigError("slurm", asked, f"Slurm refuses the job: {said}.", remedy, kind="impossible_request")


def _submit(
    places: list[int], runs: list[RunSpec], runs_dir: Path, request: Request, resume: bool
) -> _Followed:
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    folder = runs_dir.resolve() / "slurm" / name
    options = sbatch_options(runs, request)
    try:
        folder.mkdir(parents=True)
        content = SubmittedJob(runs=tuple(runs), runs_dir=runs_dir.resolve(), resume=resume)
        (folder / JOB).write_text(content.model_dump_json(), encoding="utf-8")
        words = [sys.executable, "-m", JOB_MODULE, str(folder)]
        (folder / SCRIPT).write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            "runs",
            str(runs_dir),
            f"the job cannot be written there: {error.strerror}.",
            "Name another folder with --runs, or make this one writable.",
            kind="environment",
        ) from error
    # Jobs of one sweep must not measure beside each other, on one network.
    alone = ["--dependency=singleton"] if request.jobs == "run" else []
    paths = [f"--output={folder / LOG}", f"--chdir={os.getcwd()}", "--export=ALL"]
    try:
        job = submit([*options, *alone, *paths], str(folder / SCRIPT), {**os.environ, **importable()})
    except SlurmError as error:
        raise _impossible(error, options) from error
    return _Followed(places, runs, folder, job)


def _follow(
    job: _Followed,
    on_progress: Callable[[int, Progress], None],
    on_outcome: Callable[[int, Outcome], None],
    on_state: Callable[[str], None],
) -> list[Outcome]:
    """Until the job is over, or all its outcomes are there."""
    while len(job.outcomes) < len(job.runs):
        state = _look(job)
        if state is not None and state.text() != job.shown:
            job.shown = state.text()
            on_state(f"job {job.id}: {job.shown}")
        if state is not None and state.waits_for_ever:
            cancel(job.id)
            raise ConfigError(
                "slurm",
                f"job {job.id}",
                f"Slurm would never start it: {state.reason}.",
                "Change the --slurm options, or ask those who run the cluster. The job was cancelled.",
                kind="impossible_request",
            )
        _hear(job, on_progress, on_outcome)
        over = state is None or state.is_over
        if over and len(job.outcomes) < len(job.runs):
            _hear_the_last(job, on_progress, on_outcome)
            for place in range(len(job.runs)):
                if place not in job.outcomes:
                    outcome = Outcome(job.runs[place], error=_unfinished(job, state))
                    job.outcomes[place] = outcome
                    on_outcome(job.places[place], outcome)
            break
        if len(job.outcomes) < len(job.runs):
            time.sleep(LOOK_S)
    return [job.outcomes[place] for place in range(len(job.runs))]


def _explained(job: _Followed, error: ErrorReport | None) -> ErrorReport | None:
    """What ended a run, in Slurm's last word: the job itself could not know it yet."""
    if error is None or error.kind not in ENDED or error.kind == "interrupted":
        return error
    deadline = time.monotonic() + CANCELLED_S
    while time.monotonic() < deadline:
        with suppress(SlurmError):
            if job_state(job.id).is_over:
                break
        time.sleep(LOOK_S / 4)
    if (why := why_ended(job.id)) is None or error.kind == why[0]:
        return error
    return error.model_copy(
        update={"kind": why[0], "message": f"{why[1]}: {error.message}", "remedy": f"{error.remedy} {RESUME}"}
    )


def _look(job: _Followed) -> JobState | None:
    """The job's state; None when the controller has known nothing of it for too long."""
    while True:
        try:
            state = job_state(job.id)
        except SlurmError:
            if time.monotonic() - job.answered_at > UNANSWERED_S:
                return None
            time.sleep(LOOK_S)
            continue
        job.answered_at = time.monotonic()
        return state


def _hear_the_last(
    job: _Followed,
    on_progress: Callable[[int, Progress], None],
    on_outcome: Callable[[int, Outcome], None],
) -> None:
    """What a job that is over has told, as soon as the shared file system shows it."""
    deadline = time.monotonic() + SHARED_FILES_S
    while not _hear(job, on_progress, on_outcome) and time.monotonic() < deadline:
        if not (job.folder / LOG).exists():  # it never started
            return
        time.sleep(LOOK_S)


def _hear(
    job: _Followed,
    on_progress: Callable[[int, Progress], None],
    on_outcome: Callable[[int, Outcome], None],
) -> bool:
    """Hands on what the job has told since; True where it has told its end."""
    try:
        with (job.folder / TOLD).open("rb") as file:
            file.seek(job.read)
            text = file.read()
    except OSError:
        return False
    whole = text[: text.rfind(b"\n") + 1]
    job.read += len(whole)
    ended = False
    for line in whole.splitlines():
        told: dict[str, Any] = json.loads(line)
        if "progress" in told:
            place, *progress = told["progress"]
            on_progress(job.places[place], Progress(*progress))
        elif "outcome" in told:
            place, outcome = told["place"], _outcome(job, told)
            job.outcomes[place] = outcome
            on_outcome(job.places[place], outcome)
        elif "refused" in told:
            report = ErrorReport.model_validate(told["refused"])
            raise ConfigError(
                str(report.field), report.value, report.message, str(report.remedy), kind=report.kind
            )
        ended = "end" in told
    return ended


def _outcome(job: _Followed, told: dict[str, Any]) -> Outcome:
    error = told["error"] and ErrorReport.model_validate(told["error"])
    path = told["outcome"] and Path(told["outcome"])
    record = None
    if path is not None:
        deadline = time.monotonic() + SHARED_FILES_S
        while not (path / RECORD).exists() and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        error = _explained(job, error)
        record = read(path / RECORD).model_copy(update={"error": error})
    return Outcome(job.runs[told["place"]], record, path, error, told["kept"])


def _unfinished(job: _Followed, state: JobState | None) -> ErrorReport:
    """The error of a configuration that a job did not come to."""
    log = job.folder / LOG
    why = why_ended(job.id)
    if why is None and state is None:
        why = "launch_failed", f"Slurm has not answered for {UNANSWERED_S:.0f} s about job {job.id}"
    if why is None:
        said = ["it said nothing"]
        with suppress(OSError):
            said += [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        why = "launch_failed", f"Job {job.id} ended by itself ({said[-1].strip()})"
    kind, text = why
    more = "Ask for more with --slurm-time. " if kind == "time_limit" else ""
    return ErrorReport(
        kind=kind,
        message=f"{text} before this configuration had finished.",
        remedy=f"{more}{RESUME}",
        log=str(log) if log.exists() else None,
    )


def _cancel(jobs: Sequence[_Followed], on_state: Callable[[str], None]) -> None:
    """Cancels jobs and waits until they have ended."""
    ids = [job.id for job in jobs]
    if not ids:
        return
    with suppress(SlurmError):
        cancel(*ids)
    deadline = time.monotonic() + CANCELLED_S
    while time.monotonic() < deadline:
        with suppress(SlurmError):
            if all(job_state(job).is_over for job in ids):
                break
        time.sleep(LOOK_S / 4)
    on_state(f"cancelled: job {', '.join(ids)}")
