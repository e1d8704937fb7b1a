"""Ranks for tests: T spawned processes in one gloo process group, started once and given many jobs.

Starting a rank costs seconds of imports, a job costs tenths; so a session keeps one ``World`` a size.
A job is a module-level function that every rank runs with the same arguments:

    results = world.run(function, argument)     # [function's result on rank 0, on rank 1, ...]

When a rank raises, dies or misses the deadline, all ranks are killed and ``RankFailed`` says which rank
it was and shows its traceback; the next ``run`` starts fresh ranks.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import multiprocessing
import os
import pickle
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

#: Seconds for processes to start (four on two busy cores take 20), and for one job.
START_DEADLINE_S = 120.0
JOB_DEADLINE_S = 120.0
#: Every process group's timeout: shorter than a job's deadline, so that a rank that waits for a lost
#: peer raises, and its traceback says where, before the deadline kills it.
GROUP_TIMEOUT = timedelta(seconds=90)


class RankFailed(AssertionError):
    """A rank raised, died or did not answer in time; the message holds its traceback and log."""


class _Rank(NamedTuple):
    process: multiprocessing.process.BaseProcess
    pipe: Connection
    log: Path


class World:
    """T ranks of one default process group, started by the first job."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._ranks: list[_Rank] = []
        self._folder: Path | None = None

    def run(self, function: Callable[..., Any], *args: Any, deadline_s: float = JOB_DEADLINE_S) -> list[Any]:
        """Runs ``function(*args)`` on every rank; inside, ``torch.distributed`` knows rank and size.

        Raises:
            RankFailed: naming the rank.
        """
        if not self._ranks:
            self._start()
        job = pickle.dumps((function, args))
        for rank in self._ranks:
            with contextlib.suppress(BrokenPipeError):  # it died since its last job: _collect says so
                rank.pipe.send_bytes(job)
        return self._collect(deadline_s)

    def close(self) -> None:
        """Kills the ranks."""
        for rank in self._ranks:
            rank.process.kill()
        for rank in self._ranks:
            rank.process.join()
            rank.pipe.close()
        self._ranks = []
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ranks-"))
        spawn = multiprocessing.get_context("spawn")
        for rank in range(self.size):
            here, there = spawn.Pipe()
            log = self._folder / f"rank{rank}.log"
            process = spawn.Process(
                target=_serve, args=(rank, self.size, self._folder / "store", log, there), daemon=True
            )
            process.start()
            there.close()  # so that a dead rank is an end of file here
            self._ranks.append(_Rank(process, here, log))
        self._collect(START_DEADLINE_S)

    def _collect(self, deadline_s: float) -> list[Any]:
        """One answer of every rank, or RankFailed as soon as one of them cannot come."""
        end = time.monotonic() + deadline_s
        results: dict[int, Any] = {}
        while waiting := {self._ranks[r].pipe: r for r in range(self.size) if r not in results}:
            ready = wait(list(waiting), timeout=max(0.0, end - time.monotonic()))
            if not ready:
                self._fail(min(waiting.values()), f"no answer within {deadline_s:.0f} s", dump_stacks=True)
            for pipe in ready:
                rank = waiting[pipe]  # type: ignore[index]  # wait() returns what it was given
                try:
                    error, value = pickle.loads(pipe.recv_bytes())  # type: ignore[union-attr]
                except (EOFError, ConnectionResetError):
                    self._ranks[rank].process.join()
                    self._fail(rank, f"ended with exit code {self._ranks[rank].process.exitcode}")
                if error is not None:
                    self._fail(rank, error)
                results[rank] = value
        return [results[rank] for rank in range(self.size)]

    def _fail(self, rank: int, what: str, dump_stacks: bool = False) -> None:
        failed = self._ranks[rank]
        if dump_stacks and failed.process.pid is not None:
            os.kill(failed.process.pid, signal.SIGUSR1)
            time.sleep(1.0)
        log = failed.log.read_text(errors="replace").splitlines()[-40:] if failed.log.exists() else []
        self.close()
        raise RankFailed(
            "\n".join([f"rank {rank} of {self.size}: {what}", "--- the end of its log ---", *log])
        )


def _serve(rank: int, size: int, store: Path, log: Path, pipe: Connection) -> None:
    """The life of a rank: joins the process group, then runs jobs until the pipe closes."""
    with log.open("wb", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    warnings.simplefilter("ignore")
    # As torchrun sets them; gloo stays on this host whatever its name resolves to.
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(size),
        LOCAL_RANK=str(rank),
        LOCAL_WORLD_SIZE=str(size),
        GLOO_SOCKET_IFNAME="lo",
    )
    _answer(pipe, _join_process_group, rank, size, store)
    while True:
        try:
            function, args = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        _answer(pipe, function, *args)
        gc.collect()  # a sharded model is full of cycles
        _drop_subgroups()


def _answer(pipe: Connection, function: Callable[..., Any], *args: Any) -> None:
    try:
        answer = pickle.dumps((None, function(*args)))
    except BaseException:  # whatever a rank dies of belongs into the test's report
        answer = pickle.dumps((traceback.format_exc(), None))
    pipe.send_bytes(answer)


def _drop_subgroups() -> None:
    """Every gloo group holds threads and sockets, and a session makes hundreds of them."""
    import torch.distributed as dist

    for group in list(dist.distributed_c10d._world.pg_map):
        if group is not dist.group.WORLD:
            dist.destroy_process_group(group)


def _join_process_group(rank: int, size: int, store: Path) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", store=dist.FileStore(str(store), size), rank=rank, world_size=size, timeout=GROUP_TIMEOUT
    )
