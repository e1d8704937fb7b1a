"""``sparse2d run``: one configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from suite.catalog import load_workload
from suite.cli.documents import run_body
from suite.cli.failures import RUN_FAILED, relative, show_error
from suite.cli.options import CheckpointOptions, Resume, RunOptions
from suite.cli.progress import shown
from suite.cli.slurm_options import SlurmOptions, submitted
from suite.cli.streams import messages
from suite.cli.tables import show_runs
from suite.cli.verb import Result, verb
from suite.errors import ConfigError, ErrorReport, RunFailed
from suite.launchers.base import Progress
from suite.launchers.torchrun import Start, follow
from suite.selftest.parts import cases_of, conformance
from suite.session import Outcome, check, left_behind, open_launcher, run_one
from suite.spec import RunSpec
from suite.store import RECORD

Workload = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD",
        help="A name (`sparse2d workloads`), NAME,PARAMETER=VALUE, module:function or file.toml.",
    ),
]


@verb("run")
def run(
    workload: Workload,
    options: RunOptions,
    slurm: SlurmOptions,
    checkpoints: CheckpointOptions,
    world_size: Annotated[int, typer.Option(help="T, the number of ranks.")] = 1,
    replica_groups: Annotated[int, typer.Option(help="M, the number of replica groups; 1 is plain 1D.")] = 1,
    resume: Resume = False,
    check_implementation: Annotated[
        bool,
        typer.Option(
            "--check-implementation",
            help="First train --implementation beside the selftest's oracle, in this T and M.",
        ),
    ] = False,
) -> Result:
    """Train one configuration and keep its record.

    \b
    Examples:
      sparse2d run smoke
      sparse2d run movielens_100k --world-size 4 --replica-groups 2
      sparse2d run my_tables.toml --world-size 2 --launches 5 --json
      sparse2d run smoke --checkpoint kept --checkpoint-every 20
      sparse2d run smoke --start-from kept/step00000020 --world-size 2
      sparse2d run smoke --world-size 8 --launcher slurm --slurm-nodes 2
      sparse2d run smoke --implementation my_package.my_file:MyImplementation
    """
    options = slurm.spread(options, world_size)
    with following(options.launcher):
        spec = options.build(load_workload(workload, options.data), world_size, replica_groups)
        spec = checkpoints.apply(spec)
        request = slurm.request(spec.launcher)
        if spec.launcher == "torchrun":
            check(spec)
    console = messages()
    if check_implementation:
        _conforms(spec, console)
    with shown([spec], console) as report:
        if request is not None:
            outcome = submitted([spec], options, request, console, report, lambda *_: None, resume)[0]
        else:
            outcome = _run_here(spec, options.runs, resume, partial(report, 0))
    record, path, kept = outcome.record, outcome.path, outcome.kept
    if record is None or path is None:  # a job ended before it came to anything
        assert outcome.error is not None
        raise RunFailed(outcome.error)
    if kept:
        console.print(kept_text(outcome), markup=False, soft_wrap=True)

    def show(out: Console) -> None:
        if any(launch.status == "complete" for launch in record.launches):
            show_runs([outcome], out)
        if record.error is not None:
            show_failure(outcome, console)
        out.print(f"Record: {relative(path / RECORD)}", soft_wrap=True)

    return Result(
        run_body(spec, record, path) | {"launches_kept": kept},
        show,
        exit_code=0 if outcome.error is None else RUN_FAILED,
        flags=record.environment.flags,
    )


@contextmanager
def following(launcher: str | None) -> Iterator[None]:
    """Around the checks of a run: where torchrun has started this process for another rank than 0, it then
    follows rank 0, and is silent about what rank 0 says, too.

    Raises:
        typer.Exit: it is such a process.
    """
    start = Start.of() if launcher == "torchrun" else None
    if start is None or start.rank == 0:
        yield
        return
    try:
        yield
    except ConfigError as error:
        raise typer.Exit(error.exit_code) from error
    raise typer.Exit(follow(start))


def _run_here(spec: RunSpec, runs: Path, resume: bool, on_progress: Callable[[Progress], None]) -> Outcome:
    left = left_behind(spec, runs) if resume else None
    kept = 0 if left is None else len(left.launches)
    record, path = run_one(spec, runs, open_launcher(spec.launcher), on_progress, left)
    return Outcome(spec, record, path, record.error, kept)


def _conforms(spec: RunSpec, console: Console) -> None:
    """Raises RunFailed where the implementation does not train what the oracle does."""
    for case in cases_of(spec.implementation, spec.layout.world_size, spec.layout.replica_groups):
        part = conformance(case, spec.device)
        console.print(f"{part.name}: {part.message}", markup=False, soft_wrap=True)
        if part.status == "fail":
            raise RunFailed(
                ErrorReport(
                    kind="not_conforming",
                    field="implementation",
                    value=spec.implementation,
                    message=part.message,
                    remedy="Nothing was run. reference_impl/README.md has the formulae.",
                )
            )


def kept_text(outcome: Outcome) -> str:
    """How many launches were there before this call."""
    whole = "" if outcome.kept < outcome.run.launches else ": nothing was run"
    return f"kept {outcome.kept} of {outcome.run.launches} launches of an earlier call{whole}"


def show_failure(outcome: Outcome, console: Console) -> None:
    """The error of a run that failed, with its log as a path from the working folder."""
    report = outcome.error
    assert report is not None
    if report.log is not None and outcome.path is not None:
        report = report.model_copy(update={"log": relative(outcome.path / report.log)})
    show_error(report, console)
