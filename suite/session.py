"""Runs configurations: checks first, then launch after launch, each saved before the next begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from suite.capacity import check_machine
from suite.checkpoints.folder import check_checkpoints
from suite.data import source_class
from suite.environment import capture
from suite.errors import ConfigError, ErrorReport, RunFailed
from suite.implementation import Implementation, implementation_class
from suite.launchers.base import Stopped
from suite.launchers.slurm import check_allocation, is_inside
from suite.launchers.torchrun import Start, check_start
from suite.loading import load_attribute, user_code
from suite.record import LaunchRecord, RunRecord
from suite.resume import Kept, earlier, refuse_ongoing
from suite.spec import RunSpec, validated
from suite.store import RunFolder, open_run

if TYPE_CHECKING:
    from suite.launchers.base import Launcher, Progress

#: The launchers in the tree, by their short names.
LAUNCHERS: dict[str, str] = {
    "local": "suite.launchers.local:LocalLauncher",
    "slurm": "suite.launchers.slurm:SlurmLauncher",
    "torchrun": "suite.launchers.torchrun:TorchrunLauncher",
}

#: What a sweep runs where M = 1, so that 2D stands beside TorchRec's own 1D.
SWEEP_1D = "baseline_1d"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. Its finished launches are in ``record``, at ``path``."""

    def __init__(self, record: RunRecord, path: Path) -> None:
        super().__init__()
        self.record = record
        self.path = path


@dataclass(frozen=True)
class Outcome:
    """What became of one configuration of a sweep; without a record where it could not be saved."""

    run: RunSpec
    record: RunRecord | None = None
    path: Path | None = None
    error: ErrorReport | None = None
    #: Launches that an earlier, ended call had finished.
    kept: int = 0


def open_launcher(name: str) -> Launcher:
    """The launcher behind a short name."""
    launcher: Launcher = load_attribute(LAUNCHERS[name], "launcher")()
    return launcher


def check(run: RunSpec) -> None:
    """Refuses what cannot run here, before anything is launched.

    Raises:
        ConfigError: from the implementation, the data source, or too few GPUs, hosts or too little memory.
    """
    implementation, source = implementation_class(run.implementation), source_class(run.workload)
    remedy = "Its method check(run) may raise suite.errors.ConfigError and nothing else."
    with user_code("implementation", run.implementation, remedy):
        implementation.check(run)
    remedy = "Its method check(workload) may raise suite.errors.ConfigError and nothing else."
    with user_code("data.source", run.workload.data.source, remedy):
        source.check(run.workload)
    if run.launcher == "local":
        check_machine(run)
    elif run.launcher == "slurm" and is_inside():  # else Slurm is asked when the job is submitted
        check_allocation(run)
    elif run.launcher == "torchrun":
        check_start(run, Start.of())
    if run.start is not None or run.checkpoint is not None:
        if implementation.checkpoint_state is Implementation.checkpoint_state:
            raise ConfigError(
                "implementation",
                run.implementation,
                "it keeps no checkpoints: it does not define checkpoint_state.",
                "Define it, or leave out --checkpoint and --start-from.",
            )
        check_checkpoints(run)


def left_behind(run: RunSpec, runs_dir: Path) -> Kept | RunFolder | None:
    """What an earlier, ended call has left of a run, to be handed to ``run_one`` (``suite/resume.py``).

    Raises:
        ConfigError: the configuration cannot run here, or another process is running it.
    """
    check(run)
    refuse_ongoing([run], runs_dir)
    return earlier(run, runs_dir, capture(run))


def run_one(
    run: RunSpec,
    runs_dir: Path,
    launcher: Launcher,
    on_progress: Callable[[Progress], None],
    left: Kept | RunFolder | None = None,
) -> tuple[RunRecord, Path]:
    """Runs one configuration and keeps its record, whatever happens.

    A launch that fails ends the run: its record is ``partial`` if a launch finished before, else ``failed``.

    Args:
        run: the configuration.
        runs_dir: where the record goes.
        launcher: runs a launch.
        on_progress: told how far a launch is.
        left: what an earlier call has left of it; its finished launches are not run again.

    Returns:
        The record and its folder.

    Raises:
        ConfigError: the configuration cannot run here; nothing was launched.
        RunFailed: the record cannot be saved.
        Interrupted: Ctrl-C; the record is kept.
    """
    if left is None:
        check(run)
    return _run_checked(run, runs_dir, launcher, on_progress, left)


def _run_checked(
    run: RunSpec,
    runs_dir: Path,
    launcher: Launcher,
    on_progress: Callable[[Progress], None],
    left: Kept | RunFolder | None,
) -> tuple[RunRecord, Path]:
    if isinstance(left, Kept):
        return left.record, left.path
    if left is None:
        left = open_run(runs_dir, run, capture(run))
    return _launch_all(run, left, launcher, on_progress)


def _launch_all(
    run: RunSpec, folder: RunFolder, launcher: Launcher, on_progress: Callable[[Progress], None]
) -> tuple[RunRecord, Path]:
    """Those launches that the folder does not hold yet."""
    launches = list(folder.launches)
    try:
        for index in range(len(launches), run.launches):
            launches.append(launcher.launch(run, index, folder.path, on_progress))
            folder.save_launch(launches[-1])
            if launches[-1].status == "failed":
                break
    except KeyboardInterrupt as stop:
        kind, why = (
            (stop.kind, stop.why) if isinstance(stop, Stopped) else ("interrupted", "Stopped by the user")
        )
        stopped = ErrorReport(
            kind=kind,
            message=f"{why} in launch {len(launches) + 1} of {run.launches}.",
            remedy="Finished launches are kept; the same command with --resume runs the others."
            if launches
            else "No launch had finished: run it again.",
        )
        raise Interrupted(*folder.finish(_unfinished(launches), stopped)) from None
    if launches[-1].status == "failed":
        return folder.finish(_unfinished(launches), launches[-1].error)
    return folder.finish("complete", None)


def plan_sweep(base: RunSpec, world_sizes: Sequence[int], replica_groups: Sequence[int]) -> list[RunSpec]:
    """``base`` at every world size and every number of replica groups that divides it.

    M = 1 runs on TorchRec's own 1D, whatever the implementation of ``base``, as what 2D is compared with. It
    has nothing to sync, so the sync's settings of ``base`` are for M > 1 alone. Where a host of ``base`` has
    more ranks than there are, it has them all.

    Raises:
        ConfigError: a number named twice, an M that divides no world size, or a configuration that is not
            valid. A world size that no M divides is left out.
    """
    for field, given in (("world_sizes", world_sizes), ("replica_groups", replica_groups)):
        for value in given:
            if value < 1:
                raise ConfigError(field, value, "it must be at least 1.", "Use positive whole numbers.")
            if given.count(value) > 1:
                raise ConfigError(field, value, "it is named twice.", "Name each number once.")
    pairs = [(t, m) for t in world_sizes for m in replica_groups if t % m == 0]
    for m in replica_groups:
        if m not in {used for _, used in pairs}:
            raise ConfigError(
                "replica_groups",
                m,
                f"it divides none of the world sizes {list(world_sizes)}.",
                "Leave it out, or add a world size that is a multiple of it.",
            )
    one_d = {"implementation": SWEEP_1D, "sync_interval": 1, "sync_optimizer_state": "immediate"}
    on_host = base.layout.ranks_per_host
    return [
        validated(
            RunSpec,
            dict(base)
            | (one_d if m == 1 else {})
            | {
                "layout": dict(base.layout)
                | {"world_size": t, "replica_groups": m}
                | {"ranks_per_host": None if on_host is None else min(on_host, t)},
            },
        )
        for t, m in pairs
    ]


def sweep(
    runs: Sequence[RunSpec],
    runs_dir: Path,
    launcher: Launcher,
    on_progress: Callable[[int, Progress], None],
    on_outcome: Callable[[int, Outcome], None],
    resume: bool = False,
) -> list[Outcome]:
    """Runs configurations one after the other; one that fails does not keep the others from running.

    ``on_progress`` and ``on_outcome`` are told which configuration (by its place in ``runs``) it is about;
    ``resume`` keeps what an earlier, ended call has finished (``suite/resume.py``).

    Raises:
        ConfigError: one of them cannot run here; nothing was launched.
        Interrupted: Ctrl-C; the records are kept.
    """
    for run in runs:
        check(run)
    if resume:
        refuse_ongoing(runs, runs_dir)
    outcomes = []
    for index, run in enumerate(runs):
        try:
            left = earlier(run, runs_dir, capture(run)) if resume else None
            kept = 0 if left is None else len(left.launches)
            record, path = _run_checked(run, runs_dir, launcher, partial(on_progress, index), left)
            outcomes.append(Outcome(run, record, path, record.error, kept))
        except Interrupted as stopped:
            raise (_with_finished(stopped, outcomes) if outcomes else stopped) from None
        except RunFailed as error:
            outcomes.append(Outcome(run, error=error.report))
        on_outcome(index, outcomes[-1])
    return outcomes


def _with_finished(stopped: Interrupted, outcomes: Sequence[Outcome]) -> Interrupted:
    """The same, whose remedy speaks of the configurations that had been run before."""
    error = stopped.record.error
    assert error is not None  # it was stopped
    done = sum(outcome.error is None for outcome in outcomes)
    told = error.model_copy(
        update={
            "message": f"{error.message} Before it {done} configuration{'s' if done != 1 else ''} finished.",
            "remedy": "What finished is kept; the same command with --resume runs the rest.",
        }
    )
    return Interrupted(stopped.record.model_copy(update={"error": told}), stopped.path)


def _unfinished(launches: Iterable[LaunchRecord]) -> Literal["partial", "failed"]:
    return "partial" if any(launch.status == "complete" for launch in launches) else "failed"
