"""Ranks whose processes the user's own torchrun, or srun, has started: T of ``sparse2d run --launcher
torchrun``.

Each has torchrun's variables. The one of rank 0 is the command: it checks, keeps the record and prints. The
others follow it: they watch their rank (``suite/launchers/task.py``) and end with its exit code. They find it
through the store at MASTER_ADDR:MASTER_PORT, which torchrun's agent serves, or, where srun has started them,
rank 0. One start is one launch.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from suite.errors import ConfigError
from suite.launchers.base import Stopped
from suite.launchers.deadlines import ORPHAN_S, START_S, STEP_END_S
from suite.launchers.linux import signal_with_parent
from suite.launchers.remote import Gathering
from suite.launchers.task import Place, Task
from suite.launchers.tasks import GivenUp, TaskLauncher
from suite.launchers.variables import LAUNCHER_ADDRESS, LAUNCHER_TOKEN
from suite.spec import RunSpec

if TYPE_CHECKING:
    from torch.distributed import TCPStore

_NEEDED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
#: Seconds in which all processes of a start must have met.
MEET_S = START_S + ORPHAN_S
#: Under which rank 0 says where it is.
_KEY = "sparse2d/launcher"


@dataclass(frozen=True)
class Start:
    """What torchrun tells a process that it has started."""

    rank: int
    world_size: int
    local_rank: int
    master: tuple[str, int]
    #: Whether torchrun's agent serves the store.
    has_store: bool
    #: How often torchrun has started all processes anew.
    attempt: str

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Start:
        """From the environment.

        Raises:
            ConfigError: ``launcher``: a variable is missing, or is no number; or the variable itself: it
                contradicts the others, is no port, or names no host.
        """
        missing = [name for name in _NEEDED if name not in environment]
        if missing:
            raise ConfigError(
                "launcher",
                "torchrun",
                f"torchrun's variables are not there: {', '.join(missing)}.",
                "Start it by torchrun, or set them from srun's: see docs/cluster.md.",
            )
        try:
            rank, world_size, local_rank, port = (
                int(environment[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
            )
        except ValueError as error:
            raise ConfigError(
                "launcher", "torchrun", f"a variable of torchrun's is no number: {error}.", "Correct it."
            ) from error
        below = f"from 0 to below WORLD_SIZE, which is {world_size}"
        for name, number, is_right, bounds in (
            ("WORLD_SIZE", world_size, world_size >= 1, "1 or more"),
            ("RANK", rank, 0 <= rank < world_size, below),
            ("LOCAL_RANK", local_rank, 0 <= local_rank < world_size, below),
            ("MASTER_PORT", port, 1 <= port <= 65535, "from 1 to 65535"),
        ):
            if not is_right:
                raise ConfigError(
                    name,
                    number,
                    f"this variable of torchrun's must be {bounds}.",
                    "Set it as torchrun does: see docs/cluster.md.",
                )
        _check_host(environment["MASTER_ADDR"])
        return cls(
            rank,
            world_size,
            local_rank,
            (environment["MASTER_ADDR"], port),
            environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            environment.get("TORCHELASTIC_RESTART_COUNT", "0"),
        )

    def store(self) -> TCPStore:
        """The store at which all processes of the start meet.

        Raises:
            ConnectionError: it cannot be served here, or reached from here.
        """
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # it would warn of each attempt, with a stack
        from torch.distributed import TCPStore

        if not self.serves_store:
            self._wait_for_store()
        try:
            return TCPStore(
                *self.master,
                is_master=self.serves_store,
                timeout=timedelta(seconds=MEET_S),
                wait_for_workers=False,
            )
        except RuntimeError as error:  # torch.distributed's errors are
            raise ConnectionError(f"no store at MASTER_ADDR:MASTER_PORT: {_first_line(error)}") from error

    @property
    def serves_store(self) -> bool:
        """Whether the store is this process's own."""
        return self.rank == 0 and not self.has_store

    def _wait_for_store(self) -> None:
        """Here and not inside torch, where a signal would wait, too."""
        deadline = time.monotonic() + MEET_S
        while True:
            try:
                socket.create_connection(self.master, timeout=1.0).close()
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ConnectionError(f"no store at MASTER_ADDR:MASTER_PORT: {error}") from error
            time.sleep(0.1)


def check_start(run: RunSpec, start: Start) -> None:
    """Refuses a run that is not what was started.

    Raises:
        ConfigError: naming the option, or the variable whose port is another program's.
    """
    if start.serves_store:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", start.master[1]))
            except OSError as error:
                raise ConfigError(
                    "MASTER_PORT",
                    start.master[1],
                    f"rank 0 cannot listen there: {error.strerror}.",
                    "Choose a port that is free, the same for all processes.",
                    kind="environment",
                ) from error
    if run.layout.world_size != start.world_size:
        raise ConfigError(
            "layout.world_size",
            run.layout.world_size,
            f"{start.world_size} processes were started.",
            f"Use --world-size {start.world_size}, or start as many as there are ranks.",
        )
    if run.launches > 1:
        raise ConfigError(
            "launches",
            run.launches,
            "one start by torchrun is one launch.",
            "Use --launches 1 and start it several times; `compare A,B C,D` joins the records.",
        )


def follow(start: Start) -> int:
    """What a process of rank 1 or more does; returns what to exit with.

    Raises:
        ConfigError: rank 0 has not told where it is.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # rank 0 ends the launch
    key = f"{_KEY}/{start.attempt}"
    _end_with_agent()
    try:
        store = start.store()
        deadline = time.monotonic() + MEET_S
        while not store.check([key]):
            if time.monotonic() > deadline:
                raise ConnectionError("it has told nothing")
            time.sleep(0.1)
    except (RuntimeError, ConnectionError) as error:
        raise ConfigError(
            "launcher", "torchrun", "rank 0 did not come up.", "Its output says why.", kind="environment"
        ) from error
    host, port, token = store.get(key).decode().split()
    return Task((host, int(port)), token, Place(start.rank, start.local_rank)).run()


class TorchrunLauncher(TaskLauncher):
    """See ``Launcher``: in the process of rank 0."""

    @contextmanager
    def tasks(self, run: RunSpec, gathering: Gathering, log: Path) -> Iterator[GivenUp]:
        """See ``TaskLauncher``: those of the other ranks are there already."""
        del run
        start = Start.of()
        before = signal.signal(signal.SIGTERM, _on_sigterm)
        _end_with_agent()
        store = start.store()
        address = _address_towards(start.master)
        with log.open("wb") as output:
            own = subprocess.Popen(
                [sys.executable, "-m", "suite.launchers.task"],
                env={
                    **os.environ,
                    LAUNCHER_ADDRESS: f"{address}:{gathering.port}",
                    LAUNCHER_TOKEN: gathering.token,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        store.set(f"{_KEY}/{start.attempt}", f"{address} {gathering.port} {gathering.token}")
        try:
            yield lambda: None if own.poll() is None else f"its watcher ended with {own.returncode}"
        finally:
            signal.signal(signal.SIGTERM, before)
            with suppress(subprocess.TimeoutExpired):
                own.wait(STEP_END_S)
            own.kill()
            own.wait()


def _end_with_agent() -> None:
    """Has the kernel send SIGTERM to this process when torchrun's agent, its parent, ends in any way."""
    if "TORCHELASTIC_RUN_ID" in os.environ:  # a shell that has started it may well end before it
        signal_with_parent(signal.SIGTERM)


def _first_line(error: Exception) -> str:
    """Without torch's own stack, which follows."""
    return next(iter(str(error).splitlines()), "")


def _check_host(name: str) -> None:
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError) as error:  # the latter: a name that no host can have
        raise ConfigError(
            "MASTER_ADDR",
            name,
            f"no host of this name or address is known here: {error}.",
            "Name the host of rank 0 as the others reach it: see docs/cluster.md.",
        ) from error


def _address_towards(master: tuple[str, int]) -> str:
    """The address of this host on the network on which the ranks meet."""
    family, kind, protocol, _, address = socket.getaddrinfo(*master, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # of a datagram socket: nothing is sent
        found: str = probe.getsockname()[0]
    return found


def _on_sigterm(*_: object) -> None:
    raise Stopped("cancelled", "Told to end (SIGTERM) by torchrun or Slurm")
