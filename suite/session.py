"""Runs configurations: checks first, then launch after launch, each saved before the next begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from suite.data import source_class
from suite.environment import capture, visible_gpus
from suite.errors import ConfigError, ErrorReport, RunFailed
from suite.implementation import implementation_class
from suite.loading import load_attribute, user_code
from suite.record import LaunchRecord, RunRecord
from suite.spec import RunSpec, validated
from suite.store import open_run

if TYPE_CHECKING:
    from suite.launchers.base import Launcher, Progress

#: The launchers in the tree, by their short names.
LAUNCHERS: Mapping[str, str] = {"local": "suite.launchers.local:LocalLauncher"}

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


def open_launcher(name: str) -> Launcher:
    """The launcher behind a short name."""
    launcher: Launcher = load_attribute(LAUNCHERS[name], "launcher")()
    return launcher


def check(run: RunSpec) -> None:
    """Refuses what cannot run here, before anything is launched.

    Raises:
        ConfigError: from the implementation, the data source, or too few GPUs.
    """
    implementation, source = implementation_class(run.implementation), source_class(run.workload)
    remedy = "Its method check(run) may raise suite.errors.ConfigError and nothing else."
    with user_code("implementation", run.implementation, remedy):
        implementation.check(run)
    remedy = "Its method check(workload) may raise suite.errors.ConfigError and nothing else."
    with user_code("data.source", run.workload.data.source, remedy):
        source.check(run.workload)
    if run.device == "cuda" and run.layout.world_size > visible_gpus():
        raise ConfigError(
            "device",
            run.device,
            f"{run.layout.world_size} ranks need as many GPUs; {visible_gpus()} are visible here.",
            "Use --device cpu, a smaller --world-size, or set CUDA_VISIBLE_DEVICES.",
        )


def run_one(
    run: RunSpec, runs_dir: Path, launcher: Launcher, on_progress: Callable[[Progress], None]
) -> tuple[RunRecord, Path]:
    """Runs one configuration and keeps its record, whatever happens.

    A launch that fails ends the run: its record is ``partial`` if a launch finished before, else ``failed``.

    Returns:
        The record and its folder.

    Raises:
        ConfigError: the configuration cannot run here; nothing was launched.
        RunFailed: the record cannot be saved.
        Interrupted: Ctrl-C; the record is kept.
    """
    check(run)
    folder = open_run(runs_dir, run, capture(run))
    launches: list[LaunchRecord] = []
    try:
        for index in range(run.launches):
            launches.append(launcher.launch(run, index, folder.path, on_progress))
            folder.save_launch(launches[-1])
            if launches[-1].status == "failed":
                break
    except KeyboardInterrupt:
        stopped = ErrorReport(
            kind="interrupted",
            message=f"Stopped by the user in launch {len(launches) + 1} of {run.launches}.",
            remedy="Finished launches are kept; run it again for the others.",
        )
        raise Interrupted(*folder.finish(_unfinished(launches), stopped)) from None
    if launches[-1].status == "failed":
        return folder.finish(_unfinished(launches), launches[-1].error)
    return folder.finish("complete", None)


def plan_sweep(base: RunSpec, world_sizes: Sequence[int], replica_groups: Sequence[int]) -> list[RunSpec]:
    """``base`` at every world size and every number of replica groups that divides it.

    M = 1 runs on TorchRec's own 1D, whatever the implementation of ``base``, as what 2D is compared with. It
    has nothing to sync, so the sync's settings of ``base`` are for M > 1 alone.

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
    return [
        validated(
            RunSpec,
            dict(base)
            | (one_d if m == 1 else {})
            | {
                "layout": dict(base.layout) | {"world_size": t, "replica_groups": m},
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
) -> list[Outcome]:
    """Runs configurations one after the other; one that fails does not keep the others from running.

    ``on_progress`` and ``on_outcome`` are told which configuration (by its place in ``runs``) it is about.

    Raises:
        ConfigError: one of them cannot run here; nothing was launched.
        Interrupted: Ctrl-C; the records are kept.
    """
    for run in runs:
        check(run)
    outcomes = []
    for index, run in enumerate(runs):
        try:
            record, path = run_one(run, runs_dir, launcher, partial(on_progress, index))
            outcomes.append(Outcome(run, record, path, record.error))
        except RunFailed as error:
            outcomes.append(Outcome(run, error=error.report))
        on_outcome(index, outcomes[-1])
    return outcomes


def _unfinished(launches: Iterable[LaunchRecord]) -> Literal["partial", "failed"]:
    return "partial" if any(launch.status == "complete" for launch in launches) else "failed"
