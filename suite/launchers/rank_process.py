"""The launcher's side of one rank: its process, and what it has told so far."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from suite.launchers.base import PHASES, Phase
from suite.launchers.child import Child
from suite.launchers.messages import Failure, Message


@dataclass
class Watch:
    """What is known of the process that watches a rank on another host.

    Attributes:
        heard_at: when it was last heard.
        gone_at: when its connection was found closed before the rank's end.
        told_to_end: it got SIGTERM, as Slurm sends when a job is cancelled, preempted or over its time.
    """

    heard_at: float
    gone_at: float | None = None
    told_to_end: bool = False


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
        oom_kills: how many processes of its control group were killed for memory by then.
        host: the name of its host, where ranks are on several.
        watch: what is known of the process that watches it there.
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
    oom_kills: int = 0
    host: str | None = None
    watch: Watch | None = None

    @property
    def position(self) -> tuple[int, int]:
        """Comparable: how far this rank is."""
        return PHASES.index(self.phase), self.step

    @property
    def is_alive(self) -> bool:
        """Whether it has neither ended nor said that it will."""
        return self.exit_code is None and self.failure is None and self.finished_at is None

    def take(self, message: Message) -> None:
        """Takes in what the rank has told."""
        now = time.monotonic()
        before = self.position
        self.heard_at = now
        self.phase, self.step, self.steps = message.phase, message.step, message.steps
        self.frame = message.frame
        if self.position != before:
            self.advanced_at = now
        if message.failure is not None:
            self.failure, self.failed_at = message.failure, now
        if message.finished:
            self.finished_at = self.advanced_at = now


class WatchedRank(Protocol):
    """A rank that a launch is supervised by, here or on another host."""

    status: RankStatus

    @property
    def reader(self) -> int:
        """A file descriptor that can be read when the rank has told something."""

    def receive(self) -> bool:
        """Takes in what the rank has told; False when it will tell no more."""

    def look(self) -> None:
        """Looks at the process: whether it has exited, and how."""

    def signal_group(self, number: signal.Signals) -> None:
        """Sends a signal to the rank and whatever it has started in its session."""

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the rank alone."""

    def dismiss(self) -> None:
        """Kills what is left of the rank and of what it has started."""

    def reap(self) -> None:
        """Waits for the end of a rank that has been dismissed."""


class RankProcess:
    """A rank whose process is on this host, a child of this one."""

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
        self._child = Child(arguments, environment, log, pass_fds)

    @property
    def reader(self) -> int:
        """See ``WatchedRank``."""
        return self._child.reader

    def receive(self) -> bool:
        """See ``WatchedRank``."""
        chunk = os.read(self.reader, 65536)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            self.status.take(Message.model_validate_json(line))
        return bool(chunk)

    def look(self) -> None:
        """See ``WatchedRank``."""
        child, status = self._child, self.status
        child.look()
        status.state, status.exit_code, status.exited_at = child.state, child.exit_code, child.exited_at
        status.oom_kills = child.oom_kills

    def signal_group(self, number: signal.Signals) -> None:
        """See ``WatchedRank``."""
        self._child.signal_group(number)

    def signal(self, number: signal.Signals) -> None:
        """See ``WatchedRank``."""
        self._child.signal(number)

    def dismiss(self) -> None:
        """See ``WatchedRank``."""
        self._child.signal_group(signal.SIGKILL)

    def reap(self) -> None:
        """See ``WatchedRank``."""
        self._child.reap()
