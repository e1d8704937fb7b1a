"""A rank's process, seen by the process that started it. Only the standard library is imported here: what
watches a rank on another host must start fast."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from suite.launchers.linux import memory_group, oom_kills, process_state, processes_with
from suite.launchers.variables import REPORT_FD


class Child:
    """Leader of its own session, so that the terminal's Ctrl-C does not reach it.

    Attributes:
        reader: the read end of the pipe on which it tells how far it is. state: of its process as ``ps`` has
        it, when it was last looked at. exit_code: as ``subprocess`` has it, minus the signal's number for a
        signal; None while it runs. exited_at: when its end was noticed, of ``time.monotonic``. oom_kills: how
        many processes of its control group the kernel had killed for memory since it was there, when
            it was killed itself.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.state: str | None = None
        self.exit_code: int | None = None
        self.exited_at: float | None = None
        self.oom_kills = 0
        self._group: Path | None = None
        self._kills_before = 0
        self.reader, writer = os.pipe()
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", *arguments],
                    env={**environment, REPORT_FD: str(writer)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(writer, *pass_fds),
                    start_new_session=True,
                )
        except BaseException:
            os.close(self.reader)
            raise
        finally:
            os.close(writer)

    def look(self) -> None:
        """Looks at the process: whether it has exited, and how."""
        self.state = process_state(self._process.pid)
        if self.exit_code is None:
            # WNOWAIT leaves a zombie, so that the process group id stays this rank's until ``reap``.
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                killed = ended.si_code != os.CLD_EXITED
                self.exit_code = -ended.si_status if killed else ended.si_status
                self.exited_at = time.monotonic()
                if self.exit_code == -signal.SIGKILL and self._group is not None:
                    self.oom_kills = oom_kills(self._group) - self._kills_before
            else:
                group = memory_group(self._process.pid)
                # A process that is just ending is in none any more: what it was in is what counts.
                if group is not None and group != self._group:
                    self._group, self._kills_before = group, oom_kills(group)

    def signal_group(self, number: signal.Signals) -> None:
        """Sends a signal to the rank and whatever it has started in its session."""
        os.killpg(self._process.pid, number)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the rank alone."""
        os.kill(self._process.pid, number)

    def reap(self) -> None:
        """Waits for the end of a process that has ended or was killed; its id is free afterwards."""
        self._process.wait()
        os.close(self.reader)


def kill_marked(variable: str, value: str) -> None:
    """Kills what ranks have started in sessions of its own, which no signal to the rank's group reaches."""
    for pid in processes_with(variable, value):
        with suppress(OSError):  # it has ended just now
            os.kill(pid, signal.SIGKILL)
