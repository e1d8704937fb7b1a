"""From what a user types to a WorkloadSpec: a name, ``module:function``, or a TOML file.

Named workloads are found at run time, so that adding one is one file: ``workloads/specs/<name>.py`` with
a function ``<name>()``.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suite.errors import ConfigError
from suite.loading import load_attribute, make_importable, user_code
from suite.spec import DataSpec, WorkloadSpec, config_errors, validated

SPECS = "workloads.specs"


def load_workload(name_or_path: str, location: str | None = None) -> WorkloadSpec:
    """The workload of a name, of ``module:function``, or of a path that ends in ``.toml``.

    Args:
        name_or_path: for example ``smoke``, ``my_module:my_workload`` or ``my_tables.toml``.
        location: sets ``data.location``, the folder of the user's own data.

    Raises:
        ConfigError: unknown name, unreadable or malformed file, or a spec that is not valid.
    """
    if name_or_path.endswith(".toml"):
        workload = validated(WorkloadSpec, _read_toml(Path(name_or_path)))
        make_importable(str(Path(name_or_path).parent.resolve()))  # its model and data lie beside it
    elif ":" in name_or_path:
        workload = _call(name_or_path)
    else:
        known = workload_names()
        if name_or_path not in known:
            near = difflib.get_close_matches(name_or_path, known, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise ConfigError(
                "workload",
                name_or_path,
                "there is no workload of this name.",
                f"{hint}Use one of {known}, module:function, or a path ending in .toml.",
            )
        workload = _call(f"{SPECS}.{name_or_path}:{name_or_path}")
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


def _call(reference: str) -> WorkloadSpec:
    function = load_attribute(reference, "workload")
    remedy = "It is called without arguments and must return a WorkloadSpec."
    with user_code("workload", reference, remedy), _built_by(reference), config_errors():
        workload = function()
    if not isinstance(workload, WorkloadSpec):
        raise ConfigError(
            "workload",
            reference,
            f"it returns {type(workload).__name__}.",
            "Return a suite.spec.WorkloadSpec.",
        )
    return workload


@contextmanager
def _built_by(reference: str) -> Iterator[None]:
    """Names the function in an error about a field of what it builds."""
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
