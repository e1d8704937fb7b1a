"""From what a user types to a WorkloadSpec: a name, ``module:function``, or a TOML file.

A workload's function may have parameters with defaults, which a user sets after its name:
``ctr_zipf,row_factor=10``.

Named workloads are found at run time, so that adding one is one file: ``workloads/specs/<name>.py`` with
a function ``<name>()``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suite.errors import ConfigError, did_you_mean
from suite.loading import load_attribute, make_importable, user_code
from suite.spec import DataSpec, WorkloadSpec, config_errors, validated

SPECS = "workloads.specs"


def load_workload(name_or_path: str, location: str | None = None) -> WorkloadSpec:
    """The workload of a name, of ``module:function``, or of a path that ends in ``.toml``.

    Args:
        name_or_path: for example ``smoke``, ``ctr_zipf,row_factor=10``, ``my_module:my_workload`` or
            ``my_tables.toml``.
        location: sets ``data.location``, the folder of the user's own data.

    Raises:
        ConfigError: unknown name or parameter, unreadable or malformed file, or a spec that is not valid.
    """
    if name_or_path.endswith(".toml"):
        content = _read_toml(Path(name_or_path))
        with _built_by(name_or_path):
            workload = validated(WorkloadSpec, content)
        make_importable(str(Path(name_or_path).parent.resolve()))  # its model and data lie beside it
    else:
        workload = _call(*_reference(name_or_path))
    if name_or_path in workload_names() and workload.name != name_or_path:
        raise ConfigError(
            "name",
            workload.name,
            f"the file workloads/specs/{name_or_path}.py names another workload.",
            f"Set name={name_or_path!r} in it, or rename the file and its function.",
        )
    if location is None:
        return workload
    data = validated(DataSpec, {**workload.data.model_dump(), "location": location}, "data.")
    return workload.model_copy(update={"data": data})


def list_workloads() -> list[WorkloadSpec]:
    """All named workloads, by name.

    Raises:
        ConfigError: the file of one is wrong.
    """
    return [load_workload(name) for name in workload_names()]


def each_workload() -> Iterator[tuple[str, WorkloadSpec | ConfigError]]:
    """All named workloads by name; in the place of one whose file is wrong, what is wrong with it."""
    for name in workload_names():
        try:
            yield name, load_workload(name)
        except ConfigError as error:
            yield name, error


def workload_names() -> list[str]:
    """The names that ``load_workload`` knows, sorted."""
    folder = importlib.import_module(SPECS).__path__
    return sorted(module.name for module in pkgutil.iter_modules(folder) if not module.name.startswith("_"))


def _reference(text: str) -> tuple[str, list[str]]:
    """``module:function`` and the ``parameter=value`` after a workload's name."""
    name, *parameters = text.split(",")
    if ":" in name:
        return name, parameters
    known = workload_names()
    if name not in known:
        raise ConfigError(
            "workload",
            name,
            "there is no workload of this name.",
            f"{did_you_mean(name, known)}Use one of {known}, module:function, or a path ending in .toml.",
        )
    return f"{SPECS}.{name}:{name}", parameters


def _call(reference: str, parameters: list[str]) -> WorkloadSpec:
    function = load_attribute(reference, "workload")
    remedy = "It is called with its parameters' defaults and must return a WorkloadSpec."
    with user_code("workload", reference, remedy), _built_by(reference), config_errors():
        workload = function(**_arguments(function, parameters))
    if not isinstance(workload, WorkloadSpec):
        raise ConfigError(
            "workload",
            reference,
            f"it returns {type(workload).__name__}.",
            "Return a suite.spec.WorkloadSpec.",
        )
    return workload


def _arguments(function: Any, parameters: list[str]) -> dict[str, int | float | str]:
    """Values of the types that the function's signature names: int, float or str."""
    if not parameters:
        return {}
    known = {name: p.annotation for name, p in inspect.signature(function, eval_str=True).parameters.items()}
    arguments: dict[str, int | float | str] = {}
    for part in parameters:
        name, separator, value = part.partition("=")
        if not separator or name not in known or name in arguments:
            raise ConfigError(
                "workload",
                part,
                "this is not PARAMETER=VALUE of a parameter of the workload, or sets it again.",
                f"Its parameters are {sorted(known)}." if known else "It has no parameters.",
            )
        kind = known[name] if known[name] in (int, float) else str
        try:
            arguments[name] = kind(value)
        except ValueError as error:
            raise ConfigError(
                f"workload.{name}", value, f"this is no {kind.__name__}.", f"Write it like {name}=2."
            ) from error
    return arguments


@contextmanager
def _built_by(reference: str) -> Iterator[None]:
    """Names the function, or the file, in an error about a field of what it builds."""
    try:
        yield
    except ConfigError as error:
        told = error.report.model_copy(update={"message": f"in {reference}: {error.report.message}"})
        raise ConfigError(
            **told.model_dump(include={"field", "value", "message", "remedy", "kind"})
        ) from error


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            "workload", str(path), f"the file cannot be read: {error.strerror}.", "Check the path."
        ) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML (it says where), nested too deep
        raise ConfigError(
            "workload",
            str(path),
            f"the file is not TOML: {error}.",
            "See workloads/README.md for an example.",
        ) from error
