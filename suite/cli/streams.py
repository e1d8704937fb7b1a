"""The two streams: results on stdout, everything else on stderr; a stream that is gone ends nothing else."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, TextIO, cast

from rich.console import Console

NOT_WRITTEN = 3
#: Of the widest table.
TABLE_WIDTH = 80


def messages() -> Console:
    """The console on stderr. What cannot be written there is lost, and the command goes on."""
    stream = None if sys.stderr is None else cast(IO[str], _Forgiving(sys.stderr))
    return Console(file=stream, stderr=True, highlight=False)


def write_result(write: Callable[[], None], exit_code: int) -> int:
    """Writes a command's result on stdout.

    Returns:
        ``exit_code``, or 3 where the result could not be written; one line on stderr says why.
    """
    try:
        if sys.stdout is None:  # closed by the shell's >&-
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        write()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has gone, as after `| head`: the verdict stands
        _discard(sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        text = f"Error: the result cannot be written on stdout: {error.strerror}."
        messages().print(text, markup=False, soft_wrap=True)
        return NOT_WRITTEN
    return exit_code


class Output(Console):
    """The console on stdout. Rich's own ends the program with exit code 1: a verdict that failed.

    It is as wide as the tables at least: in a narrow terminal lines break, and no figure is cut off.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.width = max(self.width, TABLE_WIDTH)

    def on_broken_pipe(self) -> None:
        """Leaves it to ``write_result``."""
        raise


class _Forgiving:
    """A text stream that becomes silent when it cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            _discard(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            _discard(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _discard(stream: TextIO | None) -> None:
    """Sends a stream's rest nowhere, so that Python does not complain about it at exit."""
    if stream is not None:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
