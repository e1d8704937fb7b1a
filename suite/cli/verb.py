"""What every verb shares: ``--json``, ``--debug``, one result, printed in one place."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from suite.cli.streams import Output, write_result
from suite.environment import capture

#: Of the documents that ``--json`` prints.
SCHEMA_VERSION = 1

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, all else on stderr.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show Python's traceback of an error.")]


@dataclass(frozen=True)
class Result:
    """What a verb found: ``body`` of its JSON document, and how to show the same to a person."""

    body: dict[str, Any]
    show: Callable[[Console], None]
    exit_code: int = 0
    #: The environment's flags where the verb captured it, else those of now.
    flags: tuple[str, ...] | None = None


def verb(name: str) -> Callable[[Callable[..., Result | None]], Callable[..., int]]:
    """Makes a command of a function that returns a Result (or None, where a subcommand follows).

    Each field of a parameter that is a dataclass becomes an option of its own, so that verbs share options.
    The dataclass may say with ``left_out(name)`` what an option is that is left out.
    """

    def decorate(function: Callable[..., Result | None]) -> Callable[..., int]:
        hints = get_type_hints(function, include_extras=True)
        parameters: list[inspect.Parameter] = []
        groups: dict[str, type] = {}
        for parameter in inspect.signature(function).parameters.values():
            annotation = hints[parameter.name]
            if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
                groups[parameter.name] = annotation
                parameters += _options_of(annotation)
            else:
                parameters.append(
                    parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY)
                )
        for flag, annotation in (("as_json", AsJson), ("debug", Debug)):
            parameters.append(
                inspect.Parameter(flag, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
            )

        @functools.wraps(function)
        def command(**given: Any) -> int:
            as_json = given.pop("as_json")
            del given["debug"]  # looked at where an error arrives, in ``main``
            for parameter_name, group in groups.items():
                names = [field.name for field in dataclasses.fields(group)]
                given[parameter_name] = group(**{n: given.pop(n) for n in names})
            # A user's model or data may print; on stdout there is the result alone.
            with redirect_stdout(sys.stderr):
                result = function(**given)
            if result is None:
                return 0
            if as_json:
                return print_document(name, result.body, result.exit_code, result.flags)
            return write_result(lambda: result.show(Output(highlight=False)), result.exit_code)

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return decorate


def print_document(
    name: str | None, body: dict[str, Any], exit_code: int, flags: tuple[str, ...] | None = None
) -> int:
    """Writes the one JSON document of a command on stdout; returns what the command ends with."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "verb": name,
        "exit_code": exit_code,
        "environment": {"flags": list(capture(None).flags if flags is None else flags)},
        **body,
    }
    text = json.dumps(document, indent=1, default=str, allow_nan=False)
    return write_result(lambda: print(text), exit_code)


def _options_of(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    left_out: Callable[[str], str | None] | None = getattr(group, "left_out", None)
    for name, hint in hints.items():
        option = hint.__metadata__[0]
        default = left_out(name) if left_out is not None else None
        # Typer knows of None, which is not what then is used.
        if default is not None and "[default" not in option.help:
            option.help += f"  [default: {default}]"
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in dataclasses.fields(group)
    ]
