"""Late binding by ``module:attribute``: how the suite reaches workloads, implementations and data.

Adding one of them is one file and no edit anywhere else.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from suite.errors import ConfigError


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
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may raise anything while it is imported
        raise ConfigError(
            field,
            reference,
            f"module {module_name!r} does not import: {type(error).__name__}: {error}",
            "Run from the folder that holds it, or install it in this environment.",
        ) from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise ConfigError(
            field,
            reference,
            f"module {module_name!r} has no attribute {attribute!r}.",
            "Check the name after the colon.",
        ) from error
