"""The options in a gate's plan, read as the verb that gets them will read them, before anything is run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from suite.catalog import load_workload, workload_names
from suite.cli import parity, run
from suite.cli.failures import report_of
from suite.cli.lab import LabOptions
from suite.cli.options import RunOptions, with_traced_ranks
from suite.errors import ConfigError
from suite.gate.findings import PartName
from suite.gate.plan import GatePlan
from suite.launchers.slurm import is_inside
from suite.quality.spec import Schedule

#: Parameters of the verbs that the gate sets itself.
_OF_RUN = ("world_size", "replica_groups", "implementation", "seed", "launches", "runs", "as_json")
_OF_SCALING = (*_OF_RUN, "scaling", "profile_steps")
_OF_PARITY = ("replica_groups", "seeds", "runs", "as_json")


def check_options(plan: GatePlan, parts: Sequence[PartName], extra: Sequence[str]) -> None:
    """Refuses options that their verb does not have, that the gate sets, and whose value it would refuse.

    Args:
        plan: the plan.
        parts: which of its parts are run.
        extra: what was given after ``--``.

    Raises:
        ConfigError: naming the place in the plan; also where launches that are compared would be jobs of
            their own, on whatever nodes each is given.
    """
    _check(run.run, "run", "run_options", extra, _OF_RUN)
    if "regression" in parts:
        for place, configuration in enumerate(plan.configurations):
            field = f"configurations.{place}.options"
            given = _check(run.run, "run", field, configuration.options, _OF_RUN)
            groups = configuration.replica_groups
            _check_values(field, given, configuration.workload, configuration.world_size, groups)
    if "scaling" in parts and plan.scaling is not None:
        given = _check(run.run, "run", "scaling.options", plan.scaling.options, _OF_SCALING)
        _check_values("scaling.options", given, plan.scaling.workload, plan.scaling.reference, 1)
    if "parity" in parts and plan.parity is not None:
        if plan.parity.world_size is None:
            given = _check(parity.parity, "parity", "parity.options", plan.parity.options, _OF_PARITY)
            _check_training(given, plan.parity.workload, plan.parity.replica_groups)
        else:
            given = _check(run.run, "run", "parity.options", plan.parity.options, _OF_RUN)
            groups = plan.parity.replica_groups
            _check_values("parity.options", given, plan.parity.workload, plan.parity.world_size, groups)


def _check(
    verb: Callable[..., int], name: str, field: str, options: Sequence[str], own: Sequence[str]
) -> dict[str, Any]:
    """What is given, by the names of the verb's parameters."""
    given = _read(verb, name, field, options)
    for parameter in own:
        if parameter in given:
            word = "--" + parameter.removeprefix("as_").replace("_", "-")
            raise ConfigError(
                field, word, "the gate sets this itself.", "Leave it out, or set the field of the plan."
            )
    launcher = given.get("launcher")
    if launcher == "torchrun":
        raise ConfigError(
            field, "--launcher torchrun", "the gate starts its launches itself.", "Leave it out."
        )
    if launcher == "slurm" and not is_inside():
        raise ConfigError(
            field,
            "--launcher slurm",
            "outside of an allocation every launch would be a job of its own, on other nodes than the one it "
            "is compared with.",
            "Begin with `salloc`; ci/gate-here slurm does.",
        )
    return given


def _check_values(field: str, given: dict[str, Any], workload: str, world_size: int, groups: int) -> None:
    """Refuses a value that `sparse2d run` would. The gated repository's own workloads are not loaded here."""
    if workload.partition(",")[0] not in workload_names():
        return
    options = RunOptions(**_fields_of(RunOptions, given))
    with _refused_by("run", field):
        options.build(load_workload(workload, options.data), world_size, groups)


def _check_training(given: dict[str, Any], workload: str, groups: int) -> None:
    """Refuses a value that `sparse2d parity` would, of the arm in 2D."""
    if workload.partition(",")[0] not in workload_names():
        return
    options = LabOptions(**_fields_of(LabOptions, given))
    arm = {name: given.get(name) for name in ("learning_rate", "scale")}
    schedule = Schedule(given.get("sync_interval", 1), given.get("sync_optimizer_state", "immediate"))
    with _refused_by("parity", "parity.options"):
        options.training(
            load_workload(workload, options.data),
            groups,
            arm | {"name": given.get("optimizer", parity.OPTIMIZER)},
            0,
            given.get("curve_points", 1),
            schedule,
        )


def _fields_of(options: type, given: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(options)}
    return {name: value for name, value in given.items() if name in names}


@contextmanager
def _refused_by(verb: str, field: str) -> Iterator[None]:
    """Tells what the verb refuses as an error of this place in the plan."""
    try:
        yield
    except ConfigError as error:
        report = error.report
        raise ConfigError(
            field,
            report.value,
            f"`sparse2d {verb}` refuses {report.field}: {report.message}",
            report.remedy or "",
        ) from error


def _read(verb: Callable[..., int], name: str, field: str, options: Sequence[str]) -> dict[str, Any]:
    """What is given, by the names of the verb's parameters."""
    if "--help" in options:
        raise ConfigError(field, "--help", "with it nothing is run.", "Leave it out.")
    app = typer.Typer(add_completion=False)
    app.command(name)(verb)
    arguments = with_traced_ranks(["smoke", *options])
    try:
        context = typer.main.get_command(app).make_context(f"sparse2d {name}", [*arguments])
    except typer.TyperException as error:
        report, _ = report_of(error, arguments)
        what = report.field if report.value is None else f"{report.field} {report.value!r}"
        message = report.message if report.field == "command line" else f"{what}: {report.message}"
        raise ConfigError(
            field,
            list(options),
            f"`sparse2d {name}` cannot read it. {message}",
            report.remedy or f"See `sparse2d {name} --help`.",
        ) from error
    return {
        parameter: value
        for parameter, value in context.params.items()
        if (source := context.get_parameter_source(parameter)) and source.name == "COMMANDLINE"
    }
