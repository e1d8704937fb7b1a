"""``sparse2d gate``: may this change be merged?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console

from suite.cli.failures import VERDICT_FAILED, relative
from suite.cli.gate_tables import show_calibration, show_gate
from suite.cli.options import Runs
from suite.cli.plan_options import check_options
from suite.cli.signals import ended_cleanly
from suite.cli.streams import messages
from suite.cli.verb import Result, verb
from suite.errors import ConfigError, did_you_mean
from suite.files import write_whole
from suite.gate.calibration import calibrate as calibration
from suite.gate.calibration import values_of
from suite.gate.expected import save_expected
from suite.gate.findings import PartName
from suite.gate.gating import Outcome, Request, current_values, renew_command, run_gate
from suite.gate.measuring import Tell
from suite.gate.plan import GatePlan, load_plan
from suite.gate.report import junit, markdown
from suite.gate.saved import configurations
from suite.metrics import METRICS

PLAN = Path("ci/quick.toml")
#: The expected values of a repository and the plan that they are of, where they lie as they do in this one.
EXPECTED, EXPECTED_PLAN = Path("ci/expected.json"), Path("ci/self.toml")


@verb("gate")
def gate(
    run_options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- RUN OPTIONS]", help="After --: further options of every `sparse2d run`."),
    ] = None,
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="What is run and how strictly it is judged (TOML).  "
            f"[default: {PLAN}; with --expected {EXPECTED_PLAN}]",
        ),
    ] = None,
    parts: Annotated[
        str | None,
        typer.Option(
            metavar="PART[,PART...]",
            help=f"Some of {', '.join(get_args(PartName))}.  [default: those that the plan has]",
        ),
    ] = None,
    base: Annotated[str, typer.Option(metavar="REV", help="Branch, tag or commit compared with.")] = "main",
    head: Annotated[
        str | None,
        typer.Option(metavar="REV", help="Branch, tag or commit that is gated.  [default: HEAD]"),
    ] = None,
    base_runs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Saved records as the base; with --head-runs.")
    ] = None,
    head_runs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Saved records as the head; with --base-runs.")
    ] = None,
    expected: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Compare the deterministic figures of the checkout, as it lies there, with this file.",
        ),
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Write --expected anew from the checkout, and judge nothing.")
    ] = False,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="From saved launches of one program: margins, false alarms, and what can be seen here.",
        ),
    ] = None,
    repo: Annotated[Path, typer.Option(metavar="PATH", help="The repository that is gated.")] = Path(),
    setup: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="Run by the shell in each side's checkout first."),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Interpreter of a side's own environment, relative to its checkout, such as "
            ".venv/bin/python.  [default: this one]",
        ),
    ] = None,
    implementation: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="module:Class of the repository, run where the plan runs 2D."),
    ] = None,
    allow_stack: Annotated[
        bool,
        typer.Option("--allow-stack", help="Base and head may have unlike versions of torch and the like."),
    ] = False,
    accept: Annotated[
        str,
        typer.Option(metavar="METRIC[,...]", help="Metrics whose change is meant: listed, and no failure."),
    ] = "",
    markdown_file: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Also write a comment for a pull request."),
    ] = None,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit XML.")
    ] = None,
    runs: Runs = Path("runs"),
) -> Result:
    """Judge whether a change makes it slower, larger, worse in scaling, or worse in quality.

    Base and head are checked out side by side and run in turn, every launch in fresh processes. What is
    deterministic (bytes, calls, parameter bytes, quality with a fixed seed) must be equal; what is noisy is
    worse only beyond its margin and beyond noise, and again in fresh launches. Exit code 0 when nothing
    fails, 1 when something does, 2 for wrong input. What did not run is never passed over: the plan says
    whether it fails or warns.

    \b
    Examples:
      sparse2d gate --base main
      sparse2d gate --base v1.2 --head my-branch --parts regression --markdown comment.md
      sparse2d gate --base-runs old/runs --head-runs new/runs --json
      sparse2d gate --plan ci/self.toml --expected ci/expected.json
      sparse2d gate --plan ci/self.toml --expected ci/expected.json --renew
      sparse2d gate --calibrate runs/again_and_again
      sparse2d gate --repo ../theirs --setup 'pip install -e .' --implementation their.module:Class
      sparse2d gate --base main -- --launcher local --device cuda
    """
    plan = plan_file or (PLAN if expected is None else EXPECTED_PLAN)
    if calibrate is not None:
        return _calibrated(load_plan(plan), calibrate)
    request = Request(
        plan=(loaded := load_plan(plan)),
        parts=_chosen(parts, loaded, saved=base_runs is not None),
        repo=repo,
        base=base,
        head=head,
        base_runs=base_runs,
        head_runs=head_runs,
        expected=expected,
        setup=setup,
        python=python,
        implementation=implementation,
        allow_stack=allow_stack,
        accepted=_metrics(accept),
        extra=tuple(run_options or ()),
        runs=runs,
    )
    _consistent(request, renew)
    if base_runs is None:
        check_options(loaded, request.parts, request.extra)
    taken = [plan] if expected is None or renew else [plan, expected]
    for field, file in (
        ("expected", expected if renew else None),
        ("markdown", markdown_file),
        ("junit", junit_file),
    ):
        if file is not None:
            _writable(field, file, taken)
            taken.append(file)
    console = messages()

    def tell(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    if renew:
        return _renewed(request, tell)
    with ended_cleanly():
        outcome = run_gate(request, tell)
    title = "Gate" if not outcome.commits else f"Gate of {outcome.commits['head'].name}"
    renewing = _renewing(request, plan)
    footer = _footer(outcome, renewing, against_base=expected is None)

    def show(out: Console) -> None:
        show_gate(outcome.gate, out)
        for line in footer:
            out.print(line, markup=False, soft_wrap=True)

    texts = {"gate.md": markdown(outcome.gate, title, footer), "junit.xml": junit(outcome.gate)}
    if outcome.folder is not None:
        for name, text in texts.items():
            _write("runs", outcome.folder / name, text)
    for field, given, text in zip(
        ("markdown", "junit"), (markdown_file, junit_file), texts.values(), strict=True
    ):
        if given is not None:
            try:
                _write(field, given, text)
            except ConfigError:  # a disk that is full by now: the verdict is not lost for it
                show(console)
                raise

    return Result(
        _body(outcome) | {"renew": renewing},
        show,
        exit_code=VERDICT_FAILED if outcome.gate.status == "fail" else 0,
    )


def _chosen(parts: str | None, plan: GatePlan, saved: bool) -> tuple[PartName, ...]:
    if parts is None:
        # Saved records hold no paired trainings.
        chosen = tuple(part for part in plan.parts if not (saved and part == "parity"))
    else:
        known = {str(name): name for name in get_args(PartName)}
        for word in parts.split(","):
            if word not in known:
                raise ConfigError(
                    "parts",
                    word,
                    "there is no such part.",
                    f"{did_you_mean(word, known)}Use some of {', '.join(known)}.",
                )
            if known[word] not in plan.parts:
                raise ConfigError(
                    "parts",
                    word,
                    "the plan has no such section.",
                    f"Add [{word}] to it, or leave the part out.",
                )
        chosen = tuple(known[word] for word in dict.fromkeys(parts.split(",")))
    if not chosen:
        raise ConfigError("plan", None, "it has no part to run.", "Add [regression], [scaling] or [parity].")
    return chosen


def _metrics(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, text.split(",")))
    for name in names:
        if name not in METRICS:
            raise ConfigError(
                "accept",
                name,
                "there is no such metric.",
                f"{did_you_mean(name, METRICS)}Use names that the gate prints.",
            )
    return names


def _consistent(request: Request, renew: bool) -> None:
    """Refuses options that do not go together."""
    if (request.base_runs is None) != (request.head_runs is None):
        field = "head_runs" if request.head_runs is None else "base_runs"
        raise ConfigError(field, None, "only one side is saved records.", "Name both folders, or none.")
    if request.expected is not None and request.base_runs is not None:
        raise ConfigError(
            "expected", str(request.expected), "saved records are compared with each other.", "Leave one out."
        )
    if renew and request.expected is None:
        raise ConfigError("renew", None, "no file is named.", f"Name it with --expected, such as {EXPECTED}.")
    plan = request.plan.parity
    if "parity" in request.parts and request.implementation is not None and plan and not plan.world_size:
        raise ConfigError(
            "parity.world_size",
            None,
            "without it parity is of virtual groups, which train the suite's own model and not "
            f"{request.implementation}.",
            "Set it in the plan, or leave the part out with --parts.",
        )
    if request.base_runs is not None and (request.setup or request.implementation or request.head):
        ignored = next(name for name in ("setup", "implementation", "head") if getattr(request, name))
        raise ConfigError(
            ignored, getattr(request, ignored), "saved records are judged, nothing is run.", "Leave it out."
        )
    if not request.repo.is_dir():
        raise ConfigError("repo", str(request.repo), "there is no such folder.", "Check the path.")


def _renewed(request: Request, tell: Tell) -> Result:
    assert request.expected is not None
    with ended_cleanly():
        expected = current_values(request, tell)
    save_expected(expected, request.expected)
    path = request.expected
    return Result(
        {"expected": relative(path), "configurations": sorted(expected.configurations)},
        lambda out: out.print(
            f"Wrote {relative(path)} ({', '.join(expected.configurations)}): commit it with the change.",
            markup=False,
            soft_wrap=True,
        ),
    )


def _calibrated(plan: GatePlan, folder: Path) -> Result:
    if plan.regression is None:
        raise ConfigError("plan", None, "it has no section [regression].", "Add it: calibration is of it.")
    rules = plan.regression
    values = {
        name: values_of(name, side, rules) for name, side in configurations(folder, "calibrate").items()
    }
    found = calibration(values, rules)
    return Result(
        found.model_dump(mode="json") | {"margins": found.margins},
        lambda out: show_calibration(found, out),
    )


def _renewing(request: Request, plan: Path) -> str | None:
    """The command that renews expected values; None where the repository has none."""
    if request.expected is not None:
        return renew_command(plan, request.expected)
    there = all((request.repo / file).is_file() for file in (EXPECTED_PLAN, EXPECTED))
    return renew_command(EXPECTED_PLAN, EXPECTED) if there else None


def _footer(outcome: Outcome, renewing: str | None, against_base: bool) -> list[str]:
    """Which commits, where everything is, and how a change that is meant is claimed."""
    lines = [f"{side}: {commit.name} ({commit.sha[:12]})" for side, commit in outcome.commits.items()]
    if nodes := os.environ.get("SLURM_JOB_NODELIST"):
        lines.append(f"nodes: {nodes}")
    if outcome.folder is not None:
        lines.append(f"Records and logs: {relative(outcome.folder)}")
    rows = [row for row in outcome.gate.findings if row.name in METRICS]
    if renewing and any(row.verdict == "better" and METRICS[row.name].deterministic for row in rows):
        lines.append(f"An improvement. Claim it by renewing the expected values: {renewing}")
    meant = sorted({row.name for row in rows if row.status == "fail" and row.verdict != "better"})
    if meant and against_base:
        lines.append(f"If the change is meant, claim it: --accept {','.join(meant)}")
    elif meant:
        lines.append(f"If the change is meant: {renewing}")
    return lines


def _body(outcome: Outcome) -> dict[str, Any]:
    gate = outcome.gate
    return {
        "verdict": gate.verdict,
        "status": gate.status,
        "reason": gate.reason,
        "parts": {
            part.name: {
                "verdict": part.verdict,
                "status": part.status,
                "reason": part.reason,
                "policy": part.policy.model_dump(),
                "notes": list(part.notes),
            }
            for part in gate.parts
        },
        "metrics": [row.model_dump(mode="json") for row in gate.findings],
        "commits": {side: {"name": c.name, "commit": c.sha} for side, c in outcome.commits.items()},
        "nodes": os.environ.get("SLURM_JOB_NODELIST"),
        "folder": None if outcome.folder is None else relative(outcome.folder),
    }


def _writable(field: str, path: Path, taken: Sequence[Path]) -> None:
    """Refuses a file that cannot be written, or must not be, before anything is run for it."""
    if path.exists() and not path.is_dir() and not path.is_file():
        raise ConfigError(field, str(path), "it is no file that can be replaced.", "Name another file.")
    if path.resolve() in [file.resolve() for file in taken]:
        raise ConfigError(
            field, str(path), "the same command reads or writes that file.", "Name another file."
        )
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise ConfigError(
            field, str(path), "it cannot be written: no such folder, or no permission.", "Name another file."
        )


def _write(field: str, path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise ConfigError(
            field, str(path), f"it cannot be written: {error.strerror}.", "Name another file."
        ) from error
