"""All ranks on this machine: T fresh processes, watched, and none left behind."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from suite.errors import ErrorReport
from suite.job import Job, RankOutput, output_file
from suite.launchers.base import Progress
from suite.launchers.linux import processes_with, take_standard_streams
from suite.launchers.rank_process import RankProcess, RankStatus
from suite.launchers.supervisor import end, supervise
from suite.launchers.variables import LAUNCH_ID, PARENT_PID, STORE_FD
from suite.record import LaunchRecord
from suite.spec import RunSpec

LOOPBACK = "127.0.0.1"


class LocalLauncher:
    """See ``Launcher``. The ranks also end when the thread that launched them does."""

    def launch(
        self, run: RunSpec, index: int, folder: Path, on_progress: Callable[[Progress], None]
    ) -> LaunchRecord:
        """See ``Launcher``."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        begin = time.monotonic()
        exchange = (folder / f"launch{index}").resolve()
        launch_id = secrets.token_hex(16)
        job_file = exchange / "job.json"
        ranks: list[RankProcess] = []
        try:
            try:
                job = Job(run=run, launch=index, output=exchange, folder=folder.resolve())
                error = _write_job(job_file, job)
                if error is None:
                    error = _start(ranks, run, index, folder, job_file, launch_id)
                if error is None:
                    error = supervise(ranks, index, run.stall_timeout_s, on_progress)
            finally:
                end(ranks)
                _end_the_others(launch_id)
            outputs = [] if error else _read_outputs(exchange, run.layout.world_size)
        finally:
            shutil.rmtree(exchange, ignore_errors=True)  # somebody may have removed the run's folder
        return _record(index, started, time.monotonic() - begin, outputs, error)


def _end_the_others(launch_id: str) -> None:
    """Kills what ranks have started in sessions of its own, which no signal to the rank's group reaches."""
    for pid in processes_with(LAUNCH_ID, launch_id):
        with suppress(OSError):  # it has ended just now
            os.kill(pid, signal.SIGKILL)


def _record(
    index: int, started: str, duration_s: float, outputs: list[RankOutput], error: ErrorReport | None
) -> LaunchRecord:
    if error is not None:
        return LaunchRecord(index=index, started=started, duration_s=duration_s, status="failed", error=error)
    return LaunchRecord(
        index=index,
        started=started,
        duration_s=duration_s,
        status="complete",
        ranks=tuple(output.record for output in outputs),
        quality=outputs[0].quality,
        sharding=outputs[0].sharding,
        data=outputs[0].data,
    )


def _read_outputs(exchange: Path, world_size: int) -> list[RankOutput]:
    files = (output_file(exchange, rank) for rank in range(world_size))
    return [RankOutput.model_validate_json(file.read_text(encoding="utf-8")) for file in files]


def _write_job(job_file: Path, job: Job) -> ErrorReport | None:
    try:
        job_file.parent.mkdir(parents=True)
        job_file.write_text(job.model_dump_json(), encoding="utf-8")
    except OSError as error:
        return ErrorReport(
            kind="cannot_save",
            field="runs",
            value=str(job_file.parent.parent),
            message=f"What the ranks are to do could not be written: {error.strerror}.",
            remedy="Make room, or name another folder with --runs.",
        )
    return None


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
            remedy="Look at free memory and disk, and at the limits of open files and processes (ulimit).",
            rank=len(ranks),
        )
    return None


def _environment(rank: int, world_size: int, store: socket.socket, launch_id: str) -> dict[str, str]:
    environment = {
        # All ranks are here, so gloo need not look up this host's name, which may lead elsewhere.
        "GLOO_SOCKET_IFNAME": "lo",
        # One thread a rank at every world size, as torchrun does: a rank that gets more cores where there
        # are fewer ranks would make scaling look worse than it is.
        "OMP_NUM_THREADS": "1",
        **os.environ,
        # What this process can import, the ranks can: the folder of a workload's TOML may be among it.
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(store.getsockname()[1]),
        "PYTHONUNBUFFERED": "1",
        PARENT_PID: str(os.getpid()),
        LAUNCH_ID: launch_id,
    }
    if rank == 0:
        environment[STORE_FD] = str(store.fileno())
    return environment
