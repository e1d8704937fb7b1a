"""The options in a gate's plan, read as the verb that gets them will read them, before anything is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from suite.cli import parity, run
from suite.cli.failures import report_of
from suite.cli.options import with_traced_ranks
from suite.errors import ConfigError
from suite.gate.findings import PartName
from suite.gate.plan import GatePlan
from suite.launchers.slurm import is_inside


def check_options(plan: GatePlan, parts: Sequence[PartName], extra: Sequence[str]) -> None:
    """Refuses options that ``sparse2d run`` (or ``sparse2d parity``) lacks, and values they cannot take.

    Args:
        plan: the plan.
        parts: which of its parts are run.
        extra: what was given after ``--``.

    Raises:
        ConfigError: naming the place in the plan; also where launches that are compared would be jobs of
            their own, on whatever nodes each is given.
    """
    launchers = [("run_options", _read(run.run, "run", "run_options", extra))]
    if "regression" in parts:
        for place, configuration in enumerate(plan.configurations):
            field = f"configurations.{place}.options"
            launchers.append((field, _read(run.run, "run", field, configuration.options)))
    if "scaling" in parts and plan.scaling is not None:
        field = "scaling.options"
        launchers.append((field, _read(run.run, "run", field, plan.scaling.options)))
    if "parity" in parts and plan.parity is not None:
        verb, name = (parity.parity, "parity") if plan.parity.world_size is None else (run.run, "run")
        _read(verb, name, "parity.options", plan.parity.options)
    for field, launcher in launchers:
        if launcher == "slurm" and not is_inside():
            raise ConfigError(
                field,
                "--launcher slurm",
                "outside of an allocation every launch would be a job of its own, on other nodes than the "
                "one it is compared with.",
                "Begin with `salloc`; ci/gate-here slurm does.",
            )


def _read(verb: Callable[..., int], name: str, field: str, options: Sequence[str]) -> str | None:
    """The launcher that the options name."""
    if "--help" in options:
        raise ConfigError(field, "--help", "with it nothing is run.", "Leave it out.")
    app = typer.Typer(add_completion=False)
    app.command(name)(verb)
    arguments = with_traced_ranks(["smoke", *options])
    try:
        context = typer.main.get_command(app).make_context(f"sparse2d {name}", [*arguments])
    except typer.TyperException as error:
        report, _ = report_of(error, arguments)
        what = report.field if report.value is None else f"{report.field} {report.value}"
        message = report.message if report.field == "command line" else f"{what}: {report.message}"
        raise ConfigError(
            field,
            list(options),
            f"`sparse2d {name}` cannot read it. {message}",
            report.remedy or f"See `sparse2d {name} --help`.",
        ) from error
    launcher: str | None = context.params.get("launcher")
    return launcher
