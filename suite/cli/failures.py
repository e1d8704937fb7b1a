"""Every way to fail, as one object and one exit code."""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from suite.errors import ErrorReport, SuiteError
from suite.launchers.base import Stopped
from suite.session import Interrupted

VERDICT_FAILED, BAD_INPUT, RUN_FAILED, INTERRUPTED = 1, 2, 3, 130


def report_of(error: BaseException, arguments: Sequence[str]) -> tuple[ErrorReport, int]:
    """The report on an exception and the exit code it ends with."""
    if isinstance(error, SuiteError):
        return error.report, error.exit_code
    if isinstance(error, typer.TyperException):
        return _usage(error, arguments), BAD_INPUT
    if isinstance(error, Interrupted) and error.record.error is not None:
        return error.record.error, _stopped(error.record.error.kind)
    if isinstance(error, Stopped):
        return ErrorReport(kind=error.kind, message=f"{error.why}."), _stopped(error.kind)
    if isinstance(error, KeyboardInterrupt):
        return ErrorReport(kind="interrupted", message="Stopped by the user."), INTERRUPTED
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (
        ErrorReport(
            kind="internal",
            message=f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})",
            remedy="This is a defect of the suite or of a module it was given; --debug shows where.",
        ),
        RUN_FAILED,
    )


def _stopped(kind: str) -> int:
    """130 says that the user has stopped it; what Slurm has ended has failed."""
    return INTERRUPTED if kind == "interrupted" else RUN_FAILED


def show_error(report: ErrorReport, console: Console) -> None:
    """One message: what is wrong, where, and what to do."""
    what = report.what
    if report.rank is not None and f"rank {report.rank}" not in what.lower():
        what = f"rank {report.rank}: {what}"
    console.print("Error: ", style="bold red", end="", soft_wrap=True)
    console.print(what, markup=False, highlight=False, soft_wrap=True)
    for label, text in (("Remedy", report.remedy), ("Log", report.log)):
        if text is not None:
            console.print(f"{label}: {text}", markup=False, highlight=False, soft_wrap=True)


def located(report: ErrorReport | None, folder: Path | None) -> dict[str, Any] | None:
    """The report as plain data, its log as a path relative to the working folder."""
    if report is None:
        return None
    content = report.model_dump(mode="json", fallback=str)
    if isinstance(report.value, float) and not math.isfinite(report.value):
        content["value"] = str(report.value)  # JSON has no number for it
    if report.log is not None and folder is not None:
        content["log"] = relative(folder / report.log)
    return content


def relative(path: Path) -> str:
    """A path as seen from the working folder."""
    return os.path.relpath(path)


def _usage(error: typer.TyperException, arguments: Sequence[str]) -> ErrorReport:
    """Typer's complaint about a command line as a report: which option, which value, what to do."""
    parameter = getattr(error, "param", None)
    names = list(parameter.opts) if parameter is not None else [getattr(error, "option_name", None)]
    field = max((name for name in names if name), key=len, default=None)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "sparse2d"
    remedy = f"See `{command} --help`."
    if possibilities := getattr(error, "possibilities", None):
        remedy = f"Did you mean {' or '.join(sorted(possibilities))}? {remedy}"
    elif field is None and (verbs := getattr(getattr(context, "command", None), "commands", None)):
        remedy = f"Use one of {', '.join(verbs)}. {remedy}"
    message = error.message or "it is missing."
    if command.endswith(" compare") and "unexpected extra argument" in message:
        message = "it takes two sides, and more arguments are given."
        remedy = f"Join the runs of one side with commas, A,B C,D. {remedy}"
    return ErrorReport(
        kind="usage",
        field=field or "command line",
        value=_value_of(field, arguments) or (None if field else _cut(" ".join(arguments))),
        message=_cut(message) if message.endswith((".", "?", ")")) else f"{_cut(message)}.",
        remedy=remedy,
    )


def _cut(text: str, width: int = 120) -> str:
    """The start of a text: a pattern of the shell may have put hundreds of paths into it."""
    return text if len(text) <= width else f"{text[:width]}..."


def _value_of(option: str | None, arguments: Sequence[str]) -> str | None:
    """What the user gave for an option, as it stands on the command line; the last counts."""
    for position, argument in reversed([*enumerate(arguments)]):
        name, separator, value = argument.partition("=")
        if name != option or not name.startswith("-"):
            continue
        if separator:
            return value
        following = arguments[position + 1 : position + 2]
        return following[0] if following and not following[0].startswith("--") else None
    return None
