"""Ranks that tasks watch, all on this host and without torch.

As a module it is the rank: ``python -m tests.helpers.light_tasks JOB`` behaves as ``LIGHT_<rank>`` says, or
trains without a fault; as a parent that is there to be killed, ``python -m tests.helpers.light_tasks launch
FOLDER``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from suite.job import Job, RankOutput, output_file, write_atomically
from suite.launchers.base import Progress
from suite.launchers.linux import die_with_parent
from suite.launchers.remote import Gathering
from suite.launchers.reporter import Reporter
from suite.launchers.tasks import GivenUp, TaskLauncher
from suite.launchers.variables import LAUNCHER_ADDRESS, LAUNCHER_TOKEN, PARENT_PID, REPORT_FD
from suite.spec import RunSpec
from tests.helpers import light_rank
from tests.helpers.records import succeed
from tests.helpers.toy_run import toy_run

BEHAVIOUR = "LIGHT_"
#: How long a step takes.
STEP_S = "LIGHT_STEP_S"


class LightTasks(TaskLauncher):
    """Starts a task for every rank, apart from those in ``absent``; those in ``blind`` see another file
    system."""

    worker = "tests.helpers.light_tasks"
    absent: tuple[int, ...] = ()
    blind: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.watchers: list[subprocess.Popen[bytes]] = []

    @contextmanager
    def tasks(self, run: RunSpec, gathering: Gathering, log: Path) -> Iterator[GivenUp]:
        with log.open("wb") as output:
            for rank in range(run.layout.world_size):
                if rank in self.absent:
                    continue
                environment = {
                    LAUNCHER_ADDRESS: f"127.0.0.1:{gathering.port}",
                    LAUNCHER_TOKEN: gathering.token,
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                }
                command = [sys.executable, "-m", "suite.launchers.task"]
                if rank in self.blind:
                    hide = 'mount -t tmpfs none "$0" && exec "$@"'
                    command = ["unshare", "-m", "sh", "-c", hide, str(log.parents[2]), *command]
                self.watchers.append(
                    subprocess.Popen(command, env={**os.environ, **environment}, stdout=output, stderr=output)
                )
        try:
            others = run.layout.world_size - len(self.absent)
            yield lambda: "it was left out" if self.absent and gathering.called == others else None
        finally:
            for watcher in self.watchers:
                watcher.kill()
                watcher.wait()


def _train(job_file: Path, rank: int) -> None:
    """Leaves behind what a rank does, with figures of its own making."""
    job = Job.model_validate_json(job_file.read_text())
    reporter = Reporter(rank, int(os.environ[REPORT_FD]))
    steps = job.run.steps
    for step in range(1, steps + 1):
        time.sleep(float(os.environ.get(STEP_S, "0")))
        reporter.at("train", step, steps)
    launch = succeed(job.run, job.launch)
    record = launch.ranks[rank].model_copy(update={"host": socket.gethostname(), "pid": os.getpid()})
    output = RankOutput(record=record, quality=launch.quality, data=launch.data)
    write_atomically(output_file(job.output, rank), output.model_dump_json())
    reporter.finished()


def main() -> None:
    """A rank, or a parent."""
    if sys.argv[1] != "launch":
        die_with_parent(int(os.environ[PARENT_PID]))  # as suite.worker does
        if behaviour := os.environ.get(BEHAVIOUR + os.environ["RANK"]):
            light_rank.main(behaviour)
        _train(Path(sys.argv[1]), int(os.environ["RANK"]))
        return

    def tell(progress: Progress) -> None:
        print(progress.phase, progress.step, flush=True)

    LightTasks().launch(toy_run(), 0, Path(sys.argv[2]), tell)


if __name__ == "__main__":
    main()
