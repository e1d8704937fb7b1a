"""What watches one rank on its host: ``python -m suite.launchers.task``, as a task of Slurm.

The launcher may be on another host, where it sees neither processes nor signals. So each rank has a watcher
beside it, which starts it, hands its messages on over a TCP connection, tells its state and its end, and
passes signals on. Whatever happens to the launcher, the network or Slurm, the watcher leaves no rank behind:
it ends it when the connection closes, when it has not heard the launcher for ORPHAN_S, and when it is told to
end itself.

Lines of JSON go both ways. To the launcher: one ``hello``, then the rank's own messages as they are, and
``watch`` with the rank's state and exit code. From it: one ``go`` with what to start, then ``signal``,
``alive`` and, when all is over, ``leave`` with the exit code to end with. Only the standard library is
imported, for every rank has one.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.launchers.child import Child, kill_marked
from suite.launchers.deadlines import LINK_HEARTBEAT_S, ORPHAN_S, POLL_S, START_S, TERMINATE_S
from suite.launchers.linux import die_with_parent, take_standard_streams
from suite.launchers.variables import (
    LAUNCH_ID,
    LAUNCHER_ADDRESS,
    LAUNCHER_TOKEN,
    PARENT_PID,
    STORE_FD,
    rank_environment,
)

SIOCGIFADDR = 0x8915
#: What it ends with where the launcher has not said.
LEFT_ALONE = 1


@dataclass(frozen=True)
class Place:
    """Where a task is: its rank, its place on its host, how many are there, and Slurm's name of the step."""

    rank: int
    local_rank: int
    step: str | None = None

    @classmethod
    def of_slurm(cls, environment: Mapping[str, str]) -> Place:
        """As srun tells its tasks."""
        step = f"{environment['SLURM_JOB_ID']}.{environment['SLURM_STEP_ID']}"
        return cls(int(environment["SLURM_PROCID"]), int(environment["SLURM_LOCALID"]), step)


class Task:
    """One task's side of the connection to the launcher."""

    def __init__(self, address: tuple[str, int], token: str, place: Place) -> None:
        self._address = address
        self._token = token
        self._place = place
        self._connection: socket.socket
        self._unread = b""
        self._heard_at = time.monotonic()
        self._told_to_end = False
        self._leave: int | None = None
        self._child: Child | None = None
        self._half = b""  # of a line of the rank's
        self._launch_id = ""

    def run(self) -> int:
        """Until the launcher says that all is over; returns what to exit with."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        store = socket.create_server(("", 0), backlog=4096) if self._place.rank == 0 else None
        try:
            self._connection = socket.create_connection(self._address, timeout=START_S)
            # Unlike a pipe, a link that is down takes no bytes: no word may wait for longer than that.
            self._connection.settimeout(LINK_HEARTBEAT_S)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._send(hello=self._hello(store))
            orders = self._wait_for_go()
            if orders is None:
                return LEFT_ALONE if self._leave is None else self._leave
            self._send(watch=self._start(orders, store))
            self._watch()
        except OSError as error:  # the launcher is gone, or out of reach
            print(
                f"rank {self._place.rank}: the connection to the launcher is lost: {error}", file=sys.stderr
            )
        finally:
            self._end()
            if store is not None:
                store.close()
        return LEFT_ALONE if self._leave is None else self._leave

    def _hello(self, store: socket.socket | None) -> dict[str, Any]:
        return {
            "token": self._token,
            "rank": self._place.rank,
            "local_rank": self._place.local_rank,
            "step": self._place.step,
            "host": socket.gethostname(),
            "store_port": None if store is None else store.getsockname()[1],
        }

    def _wait_for_go(self) -> dict[str, Any] | None:
        """What to start; None where the launcher calls it off, or is gone."""
        self._connection.settimeout(POLL_S)
        try:
            while not self._told_to_end and self._leave is None:
                for order in self._orders():
                    if "go" in order:
                        go: dict[str, Any] = order["go"]
                        return go
                if time.monotonic() - self._heard_at > START_S + ORPHAN_S:
                    return None
        finally:
            self._connection.settimeout(LINK_HEARTBEAT_S)
        self._send(watch={"told_to_end": True})
        return None

    def _start(self, go: dict[str, Any], store: socket.socket | None) -> dict[str, Any]:
        """Starts the rank; what to tell of it."""
        folder = Path(go["folder"])
        try:
            if not Path(go["job"]).is_file():
                return {"not_started": "the job cannot be seen", "unseen": go["job"]}
            take_standard_streams()
            environment = rank_environment(
                {"GLOO_SOCKET_IFNAME": self._interface()} | dict(os.environ) | go["environment"],
                self._place.rank,
                go["world_size"],
                (self._place.local_rank, go["local_world_size"]),
                (go["master_address"], go["master_port"]),
            )
            environment[PARENT_PID] = str(os.getpid())
            descriptors: tuple[int, ...] = ()
            if store is not None:
                environment[STORE_FD] = str(store.fileno())
                descriptors = (store.fileno(),)
            self._launch_id = environment[LAUNCH_ID]
            self._child = Child([go["worker"], go["job"]], environment, folder / go["log"], descriptors)
        except OSError as error:
            return {"not_started": str(error), "unseen": None}
        return {"state": "R"}

    def _interface(self) -> str:
        """The network interface that leads to the launcher: a host's name may lead to none that others
        reach."""
        here = self._connection.getsockname()[0]
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            with suppress(OSError):  # it has no IPv4 address
                if socket.inet_ntoa(fcntl.ioctl(self._connection, SIOCGIFADDR, request)[20:24]) == here:
                    return name
        return ""

    def _watch(self) -> None:
        """Hands on messages one way and signals the other, until there is nothing more to do."""
        child = self._child
        told_at = time.monotonic()
        told_the_end = told_of_sigterm = False
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            if child is not None:
                selector.register(child.reader, selectors.EVENT_READ)
            while self._leave is None:
                for key, _ in selector.select(POLL_S):
                    if key.fileobj is self._connection:
                        for order in self._orders():
                            self._obey(order)
                    elif child is not None and not self._hand_on(child.reader):
                        selector.unregister(child.reader)
                now = time.monotonic()
                if now - self._heard_at > ORPHAN_S:
                    raise OSError(f"nothing heard for {ORPHAN_S:.0f} s")
                if self._told_to_end and not told_of_sigterm:
                    told_of_sigterm = True
                    self._send(watch={"told_to_end": True})
                if child is None:
                    continue
                child.look()
                # Slurm sends SIGTERM to the rank and to this process: that it came must be told first.
                unsure = child.exit_code == -signal.SIGTERM and not told_of_sigterm
                if child.exited_at is not None and not told_the_end and now - child.exited_at > unsure:
                    while self._hand_on(child.reader):
                        pass
                    told_the_end = True
                    self._send(watch={"exit_code": child.exit_code, "oom_kills": child.oom_kills})
                if now - told_at > LINK_HEARTBEAT_S:
                    told_at = now
                    self._send(watch={"state": child.state})

    def _hand_on(self, reader: int) -> bool:
        """Whole lines only: this process's own go between them."""
        chunk = os.read(reader, 65536)
        whole, newline, self._half = (self._half + chunk).rpartition(b"\n")
        self._connection.sendall(whole + newline)
        return bool(chunk)

    def _obey(self, order: dict[str, Any]) -> None:
        if "signal" in order and self._child is not None:
            number = signal.Signals(order["signal"])
            with suppress(OSError):
                (self._child.signal_group if order["group"] else self._child.signal)(number)

    def _orders(self) -> Iterator[dict[str, Any]]:
        try:
            chunk = self._connection.recv(65536)
        except TimeoutError:
            return
        if not chunk:
            raise OSError("it was closed")
        self._heard_at = time.monotonic()
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            order = json.loads(line)
            if "leave" in order:
                self._leave = order["leave"]
            yield order

    def _send(self, **message: Any) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def _on_sigterm(self, *_: object) -> None:
        self._told_to_end = True

    def _end(self) -> None:
        """Ends what is left of the rank and of what it has started."""
        child = self._child
        if child is None:
            return
        with _deaf():
            with suppress(OSError):
                child.look()
                if child.exit_code is None and self._leave is None:  # the launcher has not done it
                    child.signal_group(signal.SIGTERM)
                    child.signal_group(signal.SIGCONT)
                    deadline = time.monotonic() + TERMINATE_S
                    while child.exit_code is None and time.monotonic() < deadline:
                        time.sleep(0.02)
                        child.look()
                child.signal_group(signal.SIGKILL)
            child.reap()
            kill_marked(LAUNCH_ID, self._launch_id)


@contextmanager
def _deaf() -> Iterator[None]:
    """Without SIGTERM, which may come again."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> None:
    """A task of its own: whom to turn to is in the environment."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(os.getppid())
    host, _, port = os.environ[LAUNCHER_ADDRESS].rpartition(":")
    if host:
        place = Place(int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"]))
    else:
        host, place = os.environ["SLURM_LAUNCH_NODE_IPADDR"], Place.of_slurm(os.environ)
    sys.exit(Task((host, int(port)), os.environ.pop(LAUNCHER_TOKEN), place).run())


if __name__ == "__main__":
    main()
