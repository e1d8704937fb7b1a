"""All ranks on this machine: T fresh processes, watched, and none left behind."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

from suite.environment import utc_now
from suite.errors import ErrorReport
from suite.job import Job
from suite.launchers.base import Progress
from suite.launchers.child import kill_marked
from suite.launchers.exchange import LIMITS, importable, launch_record, read_outputs, write_job
from suite.launchers.linux import take_standard_streams
from suite.launchers.rank_process import RankProcess, RankStatus
from suite.launchers.supervisor import end, supervise
from suite.launchers.variables import LAUNCH_ID, PARENT_PID, STORE_FD, rank_environment
from suite.record import LaunchRecord
from suite.spec import RunSpec

LOOPBACK = "127.0.0.1"


class LocalLauncher:
    """See ``Launcher``. The ranks also end when the thread that launched them does."""

    def launch(
        self, run: RunSpec, index: int, folder: Path, on_progress: Callable[[Progress], None]
    ) -> LaunchRecord:
        """See ``Launcher``."""
        started = utc_now()
        begin = time.monotonic()
        exchange = (folder / f"launch{index}").resolve()
        launch_id = secrets.token_hex(16)
        job_file = exchange / "job.json"
        ranks: list[RankProcess] = []
        try:
            try:
                job = Job(run=run, launch=index, output=exchange, folder=folder.resolve())
                error = write_job(job_file, job)
                if error is None:
                    error = _start(ranks, run, index, folder, job_file, launch_id)
                if error is None:
                    error = supervise(ranks, index, run.stall_timeout_s, on_progress)
            finally:
                end(ranks)
                kill_marked(LAUNCH_ID, launch_id)
            outputs = [] if error else read_outputs(exchange, run.layout.world_size)
        finally:
            shutil.rmtree(exchange, ignore_errors=True)  # somebody may have removed the run's folder
        return launch_record(index, started, time.monotonic() - begin, outputs, error)


def _start(
    ranks: list[RankProcess], run: RunSpec, index: int, folder: Path, job_file: Path, launch_id: str
) -> ErrorReport | None:
    """Starts the ranks and appends each to ``ranks`` at once, so that none is lost when a later one fails."""
    logs = Path("logs") / f"launch{index}"
    world_size, nccl = run.layout.world_size, run.device == "cuda"
    try:
        take_standard_streams()
        (folder / logs).mkdir(parents=True, exist_ok=True)
        # The store's socket listens before any rank is there and is handed to rank 0: its port cannot be
        # taken by another process in between, and ranks that come first need not wait for rank 0.
        with socket.create_server((LOOPBACK, 0), backlog=max(128, world_size)) as store:
            for rank in range(world_size):
                log = logs / f"rank{rank}.log"
                now = time.monotonic()
                ranks.append(
                    RankProcess(
                        RankStatus(rank, str(log), heard_at=now, advanced_at=now, nccl=nccl),
                        folder / log,
                        ["suite.worker", str(job_file)],
                        _environment(rank, world_size, store, launch_id),
                        pass_fds=(store.fileno(),) if rank == 0 else (),
                    )
                )
    except OSError as error:
        return ErrorReport(
            kind="launch_failed",
            message=f"Rank {len(ranks)} could not be started: {error}",
            remedy=LIMITS,
            rank=len(ranks),
        )
    return None


def _environment(rank: int, world_size: int, store: socket.socket, launch_id: str) -> dict[str, str]:
    # All ranks are here, so gloo need not look up this host's name, which may lead elsewhere.
    base = {"GLOO_SOCKET_IFNAME": "lo", **os.environ, **importable(), LAUNCH_ID: launch_id}
    master = LOOPBACK, store.getsockname()[1]
    environment = rank_environment(base, rank, world_size, (rank, world_size), master)
    environment[PARENT_PID] = str(os.getpid())
    if rank == 0:
        environment[STORE_FD] = str(store.fileno())
    return environment
