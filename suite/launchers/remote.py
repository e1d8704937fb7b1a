"""Ranks on other hosts, as the launcher sees them: who has called, in what order, and how each is.

The other end of the connections is ``suite/launchers/task.py``.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import selectors
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from suite.errors import ErrorReport
from suite.launchers.deadlines import LINK_HEARTBEAT_S, POLL_S, START_S, STEP_END_S
from suite.launchers.exchange import LIMITS
from suite.launchers.messages import Failure, Message
from suite.launchers.rank_process import RankStatus, Watch
from suite.spec import LayoutSpec

#: A first line longer than this comes from something else that found the port.
LONGEST_HELLO = 4096


@dataclass(frozen=True)
class Caller:
    """A task that has called: where it is, and the connection to it."""

    rank: int
    local_rank: int
    host: str
    #: Slurm's name of its step, where it is Slurm's.
    step: str | None
    #: Of rank 0: the port at which the ranks can meet on its host.
    store_port: int | None
    connection: socket.socket

    @property
    def address(self) -> str:
        """Of its host, on the network over which it called."""
        found: str = self.connection.getpeername()[0]
        return found


class Gathering:
    """Waits for the tasks of a launch to call. A context manager: closes what has not been handed on."""

    def __init__(self, world_size: int) -> None:
        self.token = secrets.token_hex(16)
        self._world_size = world_size
        self._listener = socket.create_server(("", 0), backlog=max(128, world_size))
        self._callers: dict[int, Caller] = {}
        self._handed_on = False

    def __enter__(self) -> Gathering:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        if not self._handed_on:
            for caller in self._callers.values():
                caller.connection.close()

    @property
    def port(self) -> int:
        """At which it listens, on every interface of this host."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def called(self) -> int:
        """How many tasks have called."""
        return len(self._callers)

    def wait(self, given_up: Callable[[], str | None]) -> list[Caller] | ErrorReport:
        """The tasks of all ranks, in rank order.

        Args:
            given_up: asked now and then; says why no more tasks will call, or None.
        """
        deadline = time.monotonic() + START_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            unread: dict[socket.socket, bytes] = {}
            try:
                while len(self._callers) < self._world_size:
                    for key, _ in selector.select(POLL_S):
                        self._hear(key.fileobj, selector, unread)  # type: ignore[arg-type]
                    why = given_up()
                    if why is None and time.monotonic() > deadline:
                        why = f"nothing was heard of it within {START_S:.0f} s"
                    if why is not None and len(self._callers) < self._world_size:
                        return self._missing(why)
            finally:
                for connection in unread:
                    connection.close()
        self._handed_on = True
        return [self._callers[rank] for rank in range(self._world_size)]

    def _hear(
        self, source: socket.socket, selector: selectors.BaseSelector, unread: dict[socket.socket, bytes]
    ) -> None:
        if source is self._listener:
            connection, _ = source.accept()
            connection.setblocking(False)
            unread[connection] = b""
            selector.register(connection, selectors.EVENT_READ)
            return
        try:
            chunk = source.recv(LONGEST_HELLO)
        except OSError:
            chunk = b""
        unread[source] += chunk
        if chunk and b"\n" not in unread[source] and len(unread[source]) < LONGEST_HELLO:
            return
        selector.unregister(source)
        caller = self._caller(source, unread.pop(source))
        if caller is None:
            source.close()
        else:
            self._callers[caller.rank] = caller

    def _caller(self, connection: socket.socket, line: bytes) -> Caller | None:
        """None for whoever does not know the token."""
        try:
            hello = json.loads(line)["hello"]
            if not secrets.compare_digest(str(hello.pop("token")), self.token):
                return None
            caller = Caller(connection=connection, **hello)
        except (ValueError, KeyError, TypeError):
            return None
        return caller if caller.rank in range(self._world_size) else None

    def _missing(self, why: str) -> ErrorReport:
        missing = [rank for rank in range(self._world_size) if rank not in self._callers]
        numbers = ", ".join(map(str, missing))
        there = ", ".join(dict.fromkeys(c.host for _, c in sorted(self._callers.items())))
        return ErrorReport(
            kind="launch_failed",
            rank=missing[0],
            message=f"Rank{'s' if len(missing) > 1 else ''} {numbers} did not start: {why}."
            + (f" The others are on {there}." if there else ""),
            remedy="Look whether every host is up, has this folder and this Python, and can reach this one.",
        )


def check_hosts(hosts: Sequence[str], layout: LayoutSpec) -> ErrorReport | None:
    """Whether ranks lie on hosts as the layout says: H after the other on each. Otherwise a placement would
    not mean what it says.

    Args:
        hosts: the host of each rank, in rank order.
        layout: whose ``ranks_per_host`` is H; None means all.
    """
    expected = layout.ranks_per_host or layout.world_size
    blocks = [(host, len(list(ranks))) for host, ranks in groupby(hosts)]
    if len(dict(blocks)) == len(blocks) and all(count == expected for _, count in blocks):
        return None
    found = ", ".join(f"{host} x {count}" for host, count in blocks)
    return ErrorReport(
        kind="bad_input",
        field="layout.ranks_per_host",
        value=layout.ranks_per_host,
        message=f"{expected} ranks in a row should share each host; they are on {found}, in this order.",
        remedy="Give the real number of ranks on a host as --ranks-per-host, and number ranks host by host "
        "(srun --distribution=block).",
    )


class RemoteRank:
    """A rank on another host, or on this one, that a task watches. See ``WatchedRank``."""

    def __init__(self, caller: Caller, log: str, nccl: bool) -> None:
        now = time.monotonic()
        self.status = RankStatus(
            caller.rank,
            log,
            heard_at=now,
            advanced_at=now,
            nccl=nccl,
            host=caller.host,
            watch=Watch(heard_at=now),
        )
        #: What the task is to end with.
        self.leave_with = 1
        self._connection = caller.connection
        # Blocking, but not for ever: over a link that is down nothing is taken.
        self._connection.settimeout(LINK_HEARTBEAT_S)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""
        self._open = True
        self._told_at = now

    @property
    def reader(self) -> int:
        """See ``WatchedRank``."""
        return self._connection.fileno()

    def go(self, orders: dict[str, Any]) -> None:
        """Has the task start the rank."""
        self._tell(go=orders)

    def receive(self) -> bool:
        """See ``WatchedRank``."""
        status, watch = self.status, self.status.watch
        assert watch is not None
        if not self._open:
            return False
        try:
            chunk = self._connection.recv(65536)
        except TimeoutError:
            return True
        except OSError:
            chunk = b""
        now = time.monotonic()
        if not chunk:
            self._open = False
            if status.exit_code is None:
                watch.gone_at = now
            return False
        watch.heard_at = now
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            content = json.loads(line)
            if "watch" not in content:
                status.take(Message.model_validate(content))
                continue
            told = content["watch"]
            watch.told_to_end |= told.get("told_to_end", False)
            status.state = told.get("state", status.state)
            if "not_started" in told:
                status.failure = Failure(report=self._not_started(told), communication=False)
                status.failed_at = now
            if told.get("exit_code") is not None:
                status.exit_code, status.exited_at = told["exit_code"], now
                status.oom_kills = told["oom_kills"]
        return True

    def look(self) -> None:
        """See ``WatchedRank``."""
        while self._open and _ready(self._connection, select.POLLIN) and self.receive():
            pass
        if time.monotonic() - self._told_at > LINK_HEARTBEAT_S:
            self._tell(alive=True)

    def signal_group(self, number: signal.Signals) -> None:
        """See ``WatchedRank``."""
        self._tell(signal=number, group=True)

    def signal(self, number: signal.Signals) -> None:
        """See ``WatchedRank``."""
        self._tell(signal=number, group=False)

    def dismiss(self) -> None:
        """See ``WatchedRank``: the task kills what is left, and ends itself."""
        self._tell(leave=self.leave_with)

    def reap(self) -> None:
        """See ``WatchedRank``: waits until the task has hung up, within limits."""
        deadline = time.monotonic() + STEP_END_S
        while self._open and not self.is_out_of_reach and time.monotonic() < deadline:
            if _ready(self._connection, select.POLLIN, POLL_S):
                self.receive()
        self._connection.close()

    @property
    def is_out_of_reach(self) -> bool:
        """Whether nothing has been heard from there for some heartbeats."""
        watch = self.status.watch
        return watch is not None and time.monotonic() - watch.heard_at > 3 * LINK_HEARTBEAT_S

    def _not_started(self, told: dict[str, Any]) -> ErrorReport:
        rank, host = self.status.rank, str(self.status.host)
        if told["unseen"] is not None:
            return not_shared(told["unseen"], host).model_copy(update={"rank": rank})
        return ErrorReport(
            kind="launch_failed",
            rank=rank,
            message=f"Rank {rank} could not be started on {host}: {told['not_started']}",
            remedy=LIMITS,
        )

    def _tell(self, **order: Any) -> None:
        self._told_at = time.monotonic()
        # Over a link that is down nothing is taken, and waiting for it once is enough.
        if self._open and (not self.is_out_of_reach or _ready(self._connection, select.POLLOUT)):
            with suppress(OSError):
                self._connection.sendall(json.dumps(order).encode() + b"\n")


def not_shared(path: str, host: str) -> ErrorReport:
    """The error where a host does not see a file of the run's folder that another has written."""
    return ErrorReport(
        kind="environment",
        field="runs",
        value=os.path.dirname(path),
        message=f"{host} does not see {path}, which is there on another host of the launch.",
        remedy="Name a folder with --runs that is on a file system shared by all hosts, under one path.",
    )


def _ready(connection: socket.socket, what: int, seconds: float = 0.0) -> bool:
    """Whether it can be read or written. Not by ``select``, which knows no more than 1,024 files."""
    poll = select.poll()
    poll.register(connection, what)
    return bool(poll.poll(1000 * seconds))
