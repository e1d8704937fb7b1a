"""The rank's side of the line to its launcher: a heartbeat with progress, and the error it ends with.

The line is a pipe. A step of training sets an attribute and does no input or output: a thread sends it
five times a second, so that watching does not disturb what is measured.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
import threading
import traceback
from types import FrameType

from reference_impl.errors import InvalidConfiguration
from suite.errors import ConfigError, ErrorReport, SuiteError
from suite.launchers.base import Phase
from suite.launchers.deadlines import HEARTBEAT_S
from suite.launchers.messages import Failure, Message, json_value

_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory", re.IGNORECASE)
_COMMUNICATION = re.compile(
    r"gloo/|\bNCCL\b|connection (closed|reset) by peer|timed out waiting|broken pipe", re.IGNORECASE
)


class Reporter:
    """Tells the launcher where this rank is; ``fd`` is the write end of the pipe, None to tell nobody."""

    def __init__(self, rank: int, fd: int | None) -> None:
        self._rank = rank
        self._fd = fd
        self._lock = threading.Lock()
        self._position: tuple[Phase, int, int] = ("start", 0, 0)
        self._main_thread = threading.get_ident()
        if fd is not None:
            os.set_inheritable(fd, False)
            # The launcher asks for every thread's stack, into the log, before it ends a rank that stalled.
            faulthandler.register(signal.SIGUSR1)
            threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def at(self, phase: Phase, step: int = 0, steps: int = 0) -> None:
        """Notes that ``step`` of ``steps`` of a phase are done; a new phase is told at once."""
        is_new = phase != self._position[0]
        self._position = (phase, step, steps)
        if is_new:
            self._send(self._message())

    def finished(self) -> None:
        """Tells that this rank's output is written."""
        self._send(self._message().model_copy(update={"finished": True}))

    def failed(self, error: BaseException) -> None:
        """Tells what this rank ends with."""
        report = describe(error, self._rank, position_text(*self._position))
        failure = Failure(report=report, communication=is_communication(error))
        self._send(self._message().model_copy(update={"failure": failure}))

    def _message(self) -> Message:
        phase, step, steps = self._position
        frame = sys._current_frames().get(self._main_thread)
        return Message(phase=phase, step=step, steps=steps, frame=_frame_text(frame))

    def _beat(self) -> None:
        pause = threading.Event()
        while True:
            self._send(self._message())
            pause.wait(HEARTBEAT_S)

    def _send(self, message: Message) -> None:
        if self._fd is None:
            return
        line = message.line()
        with self._lock:
            while line:
                line = line[os.write(self._fd, line) :]


def position_text(phase: Phase, step: int, steps: int) -> str:
    """Where a rank that has done ``step`` of ``steps`` is, in words; steps are counted from 0."""
    if phase == "train" and step < steps:
        return f"in step {step} of {steps}"
    return {
        "start": "while starting",
        "build": "while building",
        "train": "after training",
        "evaluate": "while evaluating",
        "profile": "while profiling",
    }[phase]


def describe(error: BaseException, rank: int, position: str) -> ErrorReport:
    """The error as the one object; what a rank knows about fields and remedies is kept."""
    if isinstance(error, InvalidConfiguration):
        error = ConfigError.from_invalid(error)
    if isinstance(error, SuiteError):
        return error.report.model_copy(update={"rank": rank, "value": json_value(error.report.value)})
    text = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error))
    ):
        return ErrorReport(
            kind="out_of_memory",
            rank=rank,
            message=f"Rank {rank} ran out of memory {position}: {text}",
            remedy="Use a smaller batch, smaller tables, or fewer replica groups: each holds a copy.",
        )
    return ErrorReport(
        kind="rank_raised",
        rank=rank,
        message=f"Rank {rank} raised {position}: {text}",
        remedy="Its log has the traceback.",
    )


def is_communication(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, comes from a collective or the store.

    A rank that meets such an error has mostly just lost another rank.
    """
    while error is not None:
        # torch.distributed's errors are known by name: a rank may fail before torch is imported.
        if any(c.__name__ == "DistError" for c in type(error).__mro__):
            return True
        if isinstance(error, RuntimeError) and _COMMUNICATION.search(str(error)):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _frame_text(frame: FrameType | None) -> str:
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
