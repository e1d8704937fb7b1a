"""Ranks as tasks of Slurm: one launch is one ``srun`` inside an allocation.

Task k of the step is rank k, dealt out host by host (``--distribution=block``), H on each, so that a
placement means what it says; where tasks really are is checked before they start. The launcher watches them
itself (``suite/launchers/task.py``), so that a dead or silent rank ends the launch by the deadlines of
``docs/faults.md``, not by Slurm's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from suite.environment import visible_gpus
from suite.errors import ConfigError, ErrorReport
from suite.launchers.base import Stopped
from suite.launchers.deadlines import STEP_END_S
from suite.launchers.remote import Gathering
from suite.launchers.slurm_commands import complaint, why_ended
from suite.launchers.tasks import GivenUp, TaskLauncher
from suite.launchers.variables import LAUNCHER_ADDRESS, LAUNCHER_TOKEN
from suite.spec import RunSpec

#: Errors that may be what the end of the whole job looks like from inside.
_MAYBE_THE_JOB = ("cancelled", "host_lost", "launch_failed", "rank_killed")


class SlurmLauncher(TaskLauncher):
    """See ``Launcher``: in the allocation that this process is in.

    Raises:
        ConfigError: ``launcher``: it is in none.
    """

    def __init__(self) -> None:
        if not is_inside():
            raise ConfigError(
                "launcher",
                "slurm",
                "this process is in no allocation of Slurm.",
                "Begin with `salloc`, or use `run` or `sweep`, which submit a job.",
            )

    @contextmanager
    def tasks(self, run: RunSpec, gathering: Gathering, log: Path) -> Iterator[GivenUp]:
        """See ``TaskLauncher``."""
        # No host in the address: tasks turn to the one that srun runs on, as srun tells them.
        environment = {LAUNCHER_ADDRESS: f":{gathering.port}", LAUNCHER_TOKEN: gathering.token}
        if cpus := os.environ.get("SLURM_CPUS_PER_TASK"):  # which srun no longer takes over from the job
            environment = {"SRUN_CPUS_PER_TASK": cpus} | environment
        with log.open("wb") as output:
            step = subprocess.Popen(
                srun(run),
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that the terminal's Ctrl-C does not reach it
            )

        def given_up() -> str | None:
            if step.poll() is None:
                return None
            said = complaint(log.read_text(errors="replace"))
            return f"srun ended with exit code {step.returncode}: {said}"

        try:
            yield given_up
        finally:
            _end(step)

    def explained(self, error: ErrorReport) -> ErrorReport:
        """See ``TaskLauncher``."""
        if error.kind in _MAYBE_THE_JOB and (why := why_ended(os.environ["SLURM_JOB_ID"])):
            raise Stopped(*why)
        return error


def srun(run: RunSpec) -> list[str]:
    """The command that starts the tasks of a launch."""
    layout = run.layout
    on_host = layout.ranks_per_host or layout.world_size
    return [
        "srun",
        f"--nodes={layout.world_size // on_host}",
        f"--ntasks={layout.world_size}",
        f"--ntasks-per-node={on_host}",
        "--distribution=block",
        "--job-name=sparse2d",
        "--export=ALL",
        "--input=none",
        "--mpi=none",
        # Inside `srun --pty bash` the allocation's cores belong to that step already.
        "--overlap",
        # The launcher ends the others itself, after it has found out who is to blame.
        "--kill-on-bad-exit=0",
        sys.executable,
        "-m",
        "suite.launchers.task",
    ]


def is_inside(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is in an allocation."""
    return "SLURM_JOB_ID" in environment and "SLURM_JOB_NUM_NODES" in environment


def check_allocation(run: RunSpec, environment: Mapping[str, str] = os.environ) -> None:
    """Refuses a run for which the allocation is too small.

    Raises:
        ConfigError: naming the option.
    """
    layout = run.layout
    on_host = layout.ranks_per_host or layout.world_size
    nodes, have = layout.world_size // on_host, int(environment["SLURM_JOB_NUM_NODES"])
    if nodes > have:
        raise ConfigError(
            "layout.world_size",
            layout.world_size,
            f"at {on_host} ranks a host it takes {nodes} hosts, and the allocation has {have}.",
            "Use a larger allocation, or a larger --ranks-per-host.",
        )
    tasks = _tasks_per_node(environment)
    if tasks is not None and on_host > tasks:
        raise ConfigError(
            "layout.ranks_per_host",
            layout.ranks_per_host,
            f"{on_host} ranks would be on a host, and the allocation has {tasks} tasks for one.",
            f"Use --ranks-per-host {tasks} or fewer, or allocate with --ntasks-per-node={on_host}.",
        )
    if run.device == "cuda" and on_host > visible_gpus():
        raise ConfigError(
            "device",
            run.device,
            f"{on_host} ranks a host need as many GPUs there; {visible_gpus()} are visible here.",
            "Use a smaller --ranks-per-host, or allocate with --gpus-per-node.",
        )


def _tasks_per_node(environment: Mapping[str, str]) -> int | None:
    """As the allocation was asked for; None where that was not said."""
    text = environment.get("SLURM_NTASKS_PER_NODE")
    return int(text) if text and text.isdecimal() else None


def _end(step: subprocess.Popen[bytes]) -> None:
    """Waits for the end of a step whose tasks have been told to end; what does not end is cancelled."""
    with suppress(subprocess.TimeoutExpired):
        step.wait(STEP_END_S)
        return
    step.terminate()  # srun cancels its step
    with suppress(subprocess.TimeoutExpired):
        step.wait(STEP_END_S)
        return
    step.kill()
    step.wait()
