"""What a rank tells its launcher: one JSON object a line."""

from __future__ import annotations

import json

from suite.errors import ErrorReport
from suite.launchers.base import Phase
from suite.spec import Frozen


class Failure(Frozen):
    """The error a rank ends with; ``communication`` where a collective failed under it."""

    report: ErrorReport
    communication: bool


class Message(Frozen):
    """A heartbeat, and the two things that are told at the end.

    Attributes:
        phase, step, steps: ``step`` of ``steps`` of the phase are done.
        frame: the innermost Python frame of the rank's main thread.
        finished: the rank's output is written.
        failure: the rank ends with this.
    """

    phase: Phase
    step: int
    steps: int
    frame: str
    finished: bool = False
    failure: Failure | None = None

    def line(self) -> bytes:
        """This message as it goes over the pipe."""
        # A lone surrogate (from the name of a file, say) can be escaped but not read again: it goes as "?".
        return json.dumps(self.model_dump(), ensure_ascii=False).encode(errors="replace") + b"\n"


def json_value(value: object) -> object:
    """The value as JSON holds it; what JSON cannot hold becomes its ``repr``, if need be all of it."""
    try:
        return json.loads(json.dumps(value, default=repr))
    except (TypeError, ValueError, RecursionError):  # a key that is no text, a loop
        return repr(value)
