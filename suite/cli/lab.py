"""What the verbs of the quality lab share: options, and trainings that are kept and gone on with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console

from suite.cli.failures import relative
from suite.cli.options import Runs
from suite.cli.progress import counted
from suite.cli.signals import ended_cleanly
from suite.environment import EnvironmentRecord, available_cores
from suite.errors import ConfigError
from suite.quality.library import Experiment, new_experiment, open_experiment
from suite.quality.pool import run_all
from suite.quality.spec import EVERY_STEP, Schedule, Training, VirtualOptimizer, VirtualOptimizerName
from suite.spec import SyncOptimizerState, WorkloadSpec, validated

OPTIMIZERS = ", ".join(get_args(VirtualOptimizerName))
SYNC_INTERVAL = "Steps from one averaging of the replicas to the next."
SYNC_OPTIMIZER_STATE = (
    "Averaged optimizer state is used at once, or from the next averaging on. "
    f"One of {', '.join(get_args(SyncOptimizerState))}."
)
MOST_SEEDS = 1000


@dataclass(frozen=True)
class LabOptions:
    """What the verbs of the quality lab share. What is left out is the workload's own default."""

    eps: Annotated[float | None, typer.Option(help="Added to the square root of the second moment.")] = None
    global_batch: Annotated[int | None, typer.Option(help="Samples a step, over all groups.")] = None
    steps: Annotated[int | None, typer.Option(help="Steps trained.")] = None
    jobs: Annotated[int | None, typer.Option(help="Trainings at once, one a core.  [default: the cores]")] = (
        None
    )
    data: Annotated[
        str | None, typer.Option(metavar="PATH", help="Your own folder with the workload's data.")
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder of an experiment that was ended: train what it lacks. With the options that it "
            "was begun with; more --seeds may be asked for.",
        ),
    ] = None
    runs: Runs = Path("runs")

    def training(
        self,
        workload: WorkloadSpec,
        groups: int,
        optimizer: dict[str, Any],
        seed: int,
        curve_points: int,
        schedule: Schedule = EVERY_STEP,
    ) -> Training:
        """One training. One group alone has nothing to sync, whatever the schedule.

        Raises:
            ConfigError: naming the field that is wrong.
        """
        default = workload.defaults.optimizer
        chosen: dict[str, Any] = {
            "name": default.name,
            "learning_rate": default.learning_rate,
            "eps": default.eps,
        }
        given = {name: value for name, value in (optimizer | {"eps": self.eps}).items() if value is not None}
        if given.get("name", default.name) == default.name:
            chosen["scale"] = default.scale  # the default's own belongs to the default's optimizer alone
        sync = EVERY_STEP if groups == 1 else schedule
        return validated(
            Training,
            {
                "workload": workload,
                "replica_groups": groups,
                "optimizer": validated(
                    VirtualOptimizer, chosen | given | {"dense": default.dense}, "optimizer."
                ),
                "sync_interval": sync.interval,
                "sync_optimizer_state": sync.state,
                "global_batch": workload.batch.global_size
                if self.global_batch is None
                else self.global_batch,
                "steps": workload.defaults.steps if self.steps is None else self.steps,
                "seed": seed,
                "curve_points": curve_points,
            },
        )

    def processes(self) -> int:
        """How many trainings go on at once.

        Raises:
            ConfigError: ``jobs`` below 1.
        """
        if self.jobs is None:
            return available_cores()
        if self.jobs < 1:
            raise ConfigError("jobs", self.jobs, "there is nothing to train with.", "Use 1 or more.")
        return self.jobs

    def experiment(
        self,
        workload: WorkloadSpec,
        verb: str,
        environment: EnvironmentRecord,
        one: Training,
        about: dict[str, Any],
        **others: Any,
    ) -> Experiment:
        """A new experiment, or the one to go on with.

        Args:
            workload, verb, environment: of the experiment.
            one: any of its trainings, which has what all share.
            about: what its data source says of itself.
            others: the verb's own options by name, in full.

        Raises:
            ConfigError: see ``suite.quality.library``.
        """
        begun = {
            "verb": verb,
            "workload": f"{workload.name} (spec {workload.spec_hash})",
            "global_batch": one.global_batch,
            "steps": one.steps,
            "eps": one.optimizer.eps,
            "data": about.get("fingerprint"),
            "parity": workload.parity.model_dump(mode="json"),  # which is not in the spec's hash
        } | others
        if self.resume is None:
            return new_experiment(self.runs, workload, verb, environment, begun)
        return open_experiment(self.resume, environment, begun)


def tell_start(experiment: Experiment, groups: Sequence[int], global_batch: int, console: Console) -> None:
    """Where an experiment is kept, before it begins: what ends it may leave no time to say so.

    And which of its groups are of unlike sizes, which real ranks never are.
    """
    console.print(f"Experiment: {relative(experiment.path)}", soft_wrap=True)
    for m in groups:
        if global_batch % m:
            least = global_batch // m
            console.print(
                f"Note: M = {m} does not divide the global batch of {global_batch:,}: its groups have "
                f"{least:,} or {least + 1:,} samples, and count alike in the mean.",
                soft_wrap=True,
            )


def train_all(
    what: str,
    trainings: Sequence[Training],
    experiment: Experiment,
    jobs: int,
    console: Console,
    may_diverge: bool = False,
) -> None:
    """Trains what the experiment lacks, with progress. Ctrl-C says how to go on."""
    with going_on(experiment, console), counted(what, console) as done:
        run_all(trainings, experiment, jobs, done, may_diverge)


@contextmanager
def going_on(experiment: Experiment, console: Console) -> Iterator[None]:
    """Around what takes long: Ctrl-C, and SIGTERM, say how to go on."""
    try:
        with ended_cleanly():
            yield
    except KeyboardInterrupt:
        console.print(
            f"{len(experiment.finished)} finished trainings are kept; go on with the same command and "
            f"--resume {relative(experiment.path)}",
            soft_wrap=True,
        )
        raise


def checked_seeds(seeds: int) -> int:
    """The number of seeds.

    Raises:
        ConfigError: none, or more than anybody trains.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise ConfigError(
            "seeds", seeds, "this many pairs cannot be trained.", f"Use 1 to {MOST_SEEDS}; 10 is usual."
        )
    return seeds
