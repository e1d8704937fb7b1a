"""Errors as one object, the same on the terminal, in ``--json`` and in the record."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from reference_impl.errors import InvalidConfiguration


class ErrorReport(BaseModel):
    """What went wrong. ``kind`` is a stable snake_case word for scripts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    message: str
    field: str | None = None
    value: Any = None
    rank: int | None = None
    remedy: str | None = None
    log: str | None = None

    @property
    def what(self) -> str:
        """Which field, which value, and what is wrong with it."""
        if self.field is None:
            return self.message
        value = "" if self.value is None else f" = {self.value!r}"
        return f"{self.field}{value}: {self.message}"


class SuiteError(Exception):
    """An error that a user can act on; ``exit_code`` is what the command line ends with."""

    exit_code = 3

    def __init__(self, report: ErrorReport) -> None:
        super().__init__(report.message)
        self.report = report

    def __reduce__(self) -> tuple[Any, ...]:
        """So that it survives the way from another process."""
        return _restored, (type(self), self.report)


class ConfigError(SuiteError):
    """Bad input or environment, found before any process is launched. Exit code 2."""

    exit_code = 2

    def __init__(self, field: str, value: object, message: str, remedy: str, kind: str = "bad_input") -> None:
        super().__init__(ErrorReport(kind=kind, field=field, value=value, message=message, remedy=remedy))

    @classmethod
    def from_invalid(cls, error: InvalidConfiguration) -> ConfigError:
        """The same error, coming from the reference implementation."""
        return cls(error.field, error.value, error.message, error.remedy)


class RunFailed(SuiteError):
    """A launch that started and did not finish. Exit code 3."""

    exit_code = 3


#: The kind of the error of a training that diverged.
NON_FINITE_LOSS = "non_finite_loss"


def non_finite_loss(loss: float, message: str, rank: int | None = None) -> RunFailed:
    """The error of a training that diverged."""
    return RunFailed(
        ErrorReport(
            kind=NON_FINITE_LOSS,
            field="loss",
            value=str(loss),
            rank=rank,
            message=message,
            remedy="Lower the learning rates, raise eps, or look for bad values in the data.",
        )
    )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """For the start of a remedy: the known word nearest to a wrong one, or nothing where none is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"Did you mean {near[0]}? " if near else ""


def _restored(kind: type[SuiteError], report: ErrorReport) -> SuiteError:
    error = kind.__new__(kind)
    SuiteError.__init__(error, report)
    return error
