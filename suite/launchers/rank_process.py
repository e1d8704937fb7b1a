"""The launcher's side of one rank: its process, and what it has told so far."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.launchers.base import PHASES, Phase
from suite.launchers.linux import process_state
from suite.launchers.messages import Failure, Message
from suite.launchers.variables import REPORT_FD


@dataclass
class RankStatus:
    """What is known of a rank. Times are of ``time.monotonic``.

    Attributes:
        rank: which one.
        log: its log, relative to the run's folder.
        nccl: whether its collectives are NCCL's.
        phase, step, steps: ``step`` of ``steps`` of the phase are done.
        frame: the innermost Python frame of its main thread when it was last heard.
        heard_at: when it was last heard.
        advanced_at: when it was last seen to get further.
        failure, failed_at: what it says it ends with, and when.
        exit_code, exited_at: as ``subprocess`` has it, minus the signal's number for a signal.
        finished_at: when it said that its output is written.
        state: the state of its process as ``ps`` has it; looked up when it has been silent.
    """

    rank: int
    log: str
    heard_at: float
    advanced_at: float
    phase: Phase = "start"
    step: int = 0
    steps: int = 0
    frame: str = ""
    failure: Failure | None = None
    failed_at: float | None = None
    exit_code: int | None = None
    exited_at: float | None = None
    finished_at: float | None = None
    state: str | None = None
    nccl: bool = False

    @property
    def position(self) -> tuple[int, int]:
        """Comparable: how far this rank is."""
        return PHASES.index(self.phase), self.step

    @property
    def is_alive(self) -> bool:
        """Whether it has neither ended nor said that it will."""
        return self.exit_code is None and self.failure is None and self.finished_at is None


class RankProcess:
    """One rank's process, leader of its own session, so that the terminal's Ctrl-C does not reach it."""

    def __init__(
        self,
        status: RankStatus,
        log: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.status = status
        self._unread = b""
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

    def receive(self) -> bool:
        """Takes in what the rank has told; False when it will tell no more."""
        chunk = os.read(self.reader, 65536)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            self._take(Message.model_validate_json(line))
        return bool(chunk)

    def look(self) -> None:
        """Looks at the process: whether it has exited, and how."""
        status = self.status
        status.state = process_state(self._process.pid)
        if status.exit_code is None:
            # WNOWAIT leaves a zombie, so that the process group id stays this rank's until ``reap``.
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                killed = ended.si_code != os.CLD_EXITED
                status.exit_code = -ended.si_status if killed else ended.si_status
                status.exited_at = time.monotonic()

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

    def _take(self, message: Message) -> None:
        status, now = self.status, time.monotonic()
        before = status.position
        status.heard_at = now
        status.phase, status.step, status.steps = message.phase, message.step, message.steps
        status.frame = message.frame
        if status.position != before:
            status.advanced_at = now
        if message.failure is not None:
            status.failure, status.failed_at = message.failure, now
        if message.finished:
            status.finished_at = status.advanced_at = now
