"""``sparse2d run``: one configuration."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from suite.catalog import load_workload
from suite.cli.documents import run_body
from suite.cli.failures import RUN_FAILED, relative, show_error
from suite.cli.options import CheckpointOptions, Resume, RunOptions
from suite.cli.progress import shown
from suite.cli.streams import messages
from suite.cli.tables import show_runs
from suite.cli.verb import Result, verb
from suite.errors import ErrorReport, RunFailed
from suite.selftest.parts import cases_of, conformance
from suite.session import Outcome, left_behind, open_launcher, run_one
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
      sparse2d run smoke --implementation my_package.my_file:MyImplementation
    """
    spec = options.build(load_workload(workload, options.data), world_size, replica_groups)
    spec = checkpoints.apply(spec)
    console = messages()
    if check_implementation:
        _conforms(spec, console)
    left = left_behind(spec, options.runs) if resume else None
    kept = 0 if left is None else len(left.launches)
    with shown([spec], console) as report:
        record, path = run_one(spec, options.runs, open_launcher(spec.launcher), partial(report, 0), left)
    outcome = Outcome(spec, record, path, record.error, kept)
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
        exit_code=0 if record.status == "complete" else RUN_FAILED,
        flags=record.environment.flags,
    )


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
