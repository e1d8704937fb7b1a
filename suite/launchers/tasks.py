"""What launchers of ranks on several hosts share: all but how the tasks that watch the ranks are started."""

from __future__ import annotations

import secrets
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from suite.environment import utc_now
from suite.errors import ErrorReport
from suite.job import Job, RankOutput
from suite.launchers.base import Progress
from suite.launchers.deadlines import SHARED_FILES_S
from suite.launchers.exchange import LIMITS, importable, launch_record, read_outputs, write_job
from suite.launchers.remote import Caller, Gathering, RemoteRank, check_hosts, not_shared
from suite.launchers.supervisor import end, supervise
from suite.launchers.variables import LAUNCH_ID
from suite.record import LaunchRecord
from suite.spec import RunSpec

#: Asked while tasks are waited for: why no more will call, or None.
GivenUp = Callable[[], str | None]


class TaskLauncher(ABC):
    """See ``Launcher``. The run's folder must be on a file system that all hosts share, under the same
    path."""

    #: The module of a rank's process; it is given the job's file.
    worker = "suite.worker"

    @abstractmethod
    def tasks(self, run: RunSpec, gathering: Gathering, log: Path) -> AbstractContextManager[GivenUp]:
        """Starts a task for each rank, which calls the gathering; on leaving, none of them is left.

        Args:
            run: what is launched.
            gathering: where the tasks are to call.
            log: for what starting them prints.

        Raises:
            OSError: they cannot be started.
        """

    def explained(self, error: ErrorReport) -> ErrorReport:
        """The error of a launch, with what whoever started the tasks knows of it.

        Raises:
            Stopped: the launch did not fail, but everything around it was ended.
        """
        return error

    def launch(
        self, run: RunSpec, index: int, folder: Path, on_progress: Callable[[Progress], None]
    ) -> LaunchRecord:
        """See ``Launcher``."""
        started, begin = utc_now(), time.monotonic()
        folder = folder.resolve()
        exchange = folder / f"launch{index}"
        outputs: list[RankOutput] = []
        try:
            error = write_job(
                exchange / "job.json", Job(run=run, launch=index, output=exchange, folder=folder)
            )
            if error is None:
                error = self._run(run, index, folder, exchange, on_progress)
            if error is None:
                try:
                    outputs = read_outputs(exchange, run.layout.world_size, SHARED_FILES_S)
                except FileNotFoundError as missing:
                    error = not_shared(str(missing.filename), "this host")
        finally:
            shutil.rmtree(exchange, ignore_errors=True)
        if error is not None:
            error = self.explained(error)
        return launch_record(index, started, time.monotonic() - begin, outputs, error)

    def _run(
        self, run: RunSpec, index: int, folder: Path, exchange: Path, on_progress: Callable[[Progress], None]
    ) -> ErrorReport | None:
        logs = Path("logs") / f"launch{index}"
        ranks: list[RemoteRank] = []
        try:
            (folder / logs).mkdir(parents=True, exist_ok=True)
            with (
                Gathering(run.layout.world_size) as gathering,
                self.tasks(run, gathering, folder / logs / "tasks.log") as given_up,
            ):
                callers = gathering.wait(given_up)
                if isinstance(callers, ErrorReport):
                    return callers.model_copy(update={"log": str(logs / "tasks.log")})
                ranks = [
                    RemoteRank(c, str(logs / f"rank{c.rank}.log"), nccl=run.device == "cuda") for c in callers
                ]
                try:
                    error = check_hosts([caller.host for caller in callers], run.layout)
                    if error is not None:
                        return error
                    _go(run, folder, exchange, self.worker, callers, ranks)
                    error = supervise(ranks, index, run.stall_timeout_s, on_progress)
                    if error is None:
                        for rank in ranks:
                            rank.leave_with = 0
                    return error
                finally:
                    end(ranks)
        except OSError as failure:
            return ErrorReport(
                kind="launch_failed",
                message=f"The ranks could not be started: {failure}",
                remedy=LIMITS,
            )


def _go(
    run: RunSpec,
    folder: Path,
    exchange: Path,
    worker: str,
    callers: list[Caller],
    ranks: list[RemoteRank],
) -> None:
    launch_id = secrets.token_hex(16)
    layout = run.layout
    for rank in ranks:
        rank.go(
            {
                "worker": worker,
                "job": str(exchange / "job.json"),
                "folder": str(folder),
                "log": rank.status.log,
                "world_size": layout.world_size,
                "local_world_size": layout.ranks_per_host or layout.world_size,
                "master_address": callers[0].address,
                "master_port": callers[0].store_port,
                "environment": importable() | {LAUNCH_ID: launch_id},
            }
        )
