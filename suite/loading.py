"""Late binding by ``module:attribute``: how the suite reaches workloads, implementations and data.

Adding one of them is one file and no edit anywhere else.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from reference_impl.errors import InvalidConfiguration
from suite.errors import ConfigError, SuiteError

_MISSING = object()


@contextmanager
def user_code(
    field: str, value: object, remedy: str, what: str = "it raised", kind: str = "bad_input"
) -> Iterator[None]:
    """Around code of the user's own: it may raise anything, exit, and print.

    What it prints goes to stderr, so that stdout holds the result alone.

    Raises:
        ConfigError: the code's own one, or one that tells what it raised.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (SuiteError, KeyboardInterrupt):
        raise
    except InvalidConfiguration as error:
        raise ConfigError.from_invalid(error) from error
    except BaseException as error:  # also SystemExit, which would end the suite without a word
        raise ConfigError(field, value, f"{what} {type(error).__name__}: {error}", remedy, kind) from error


def load_attribute(reference: str, field: str) -> Any:
    """The object that ``module:attribute`` names; the working folder is importable.

    Raises:
        ConfigError: not of that form, no such module or attribute, or the module fails to import.
    """
    module_name, separator, attribute = reference.partition(":")
    if not separator or not module_name or not attribute:
        raise ConfigError(
            field,
            reference,
            "this is not of the form module:attribute.",
            "Write it like my_package.my_file:MyClass.",
        )
    make_importable(_working_folder())
    with user_code(
        field,
        reference,
        "Mend that module, or install what it imports.",
        f"module {module_name!r} does not import:",
    ):
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise  # one that it imports is missing
            raise ConfigError(
                field,
                reference,
                f"module {module_name!r} does not import: {error}.",
                "Run from the folder that holds it, or install it in this environment.",
            ) from error
        found = getattr(module, attribute, _MISSING)
    if found is _MISSING:
        raise ConfigError(
            field,
            reference,
            f"module {module_name!r} has no attribute {attribute!r}.",
            "Check the name after the colon.",
        )
    return found


def make_importable(folder: str) -> None:
    """Modules in a folder are found from now on; by the ranks too, which get this process's path."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise ConfigError(
            "working folder",
            None,
            f"it cannot be used: {error.strerror}.",
            "Change to a folder that exists.",
            kind="environment",
        ) from error
