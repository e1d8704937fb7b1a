"""What the verbs of the quality lab share: options, and trainings that are kept and gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console

from suite.cli.failures import relative
from suite.cli.options import Runs
from suite.cli.progress import counted
from suite.environment import EnvironmentRecord, available_cores
from suite.errors import ConfigError
from suite.quality.library import Experiment, new_experiment, open_experiment
from suite.quality.pool import run_all
from suite.quality.spec import Training, VirtualOptimizer, VirtualOptimizerName
from suite.spec import SyncOptimizerState, WorkloadSpec, validated

OPTIMIZERS = ", ".join(get_args(VirtualOptimizerName))
MOST_SEEDS = 1000


@dataclass(frozen=True)
class LabOptions:
    """What the verbs of the quality lab share. What is left out is the workload's own default."""

    eps: Annotated[float | None, typer.Option(help="Added to the square root of the second moment.")] = None
    sync_interval: Annotated[
        int, typer.Option(help="Steps from one averaging of the replicas to the next.")
    ] = 1
    sync_optimizer_state: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Averaged optimizer state is used at once, or from the next averaging on. "
            f"One of {', '.join(get_args(SyncOptimizerState))}.",
        ),
    ] = "immediate"
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
            help="The folder of an experiment that was ended. With the same options: train what it lacks.",
        ),
    ] = None
    runs: Runs = Path("runs")

    def training(
        self, workload: WorkloadSpec, groups: int, optimizer: dict[str, Any], seed: int, curve_points: int
    ) -> Training:
        """One training.

        Raises:
            ConfigError: naming the field that is wrong.
        """
        default = workload.defaults.optimizer
        chosen = {"name": default.name, "learning_rate": default.learning_rate, "eps": default.eps}
        given = {name: value for name, value in (optimizer | {"eps": self.eps}).items() if value is not None}
        alone = groups == 1
        return validated(
            Training,
            {
                "workload": workload,
                "replica_groups": groups,
                "optimizer": validated(
                    VirtualOptimizer, chosen | given | {"dense": default.dense}, "optimizer."
                ),
                "sync_interval": 1 if alone else self.sync_interval,
                "sync_optimizer_state": "immediate" if alone else self.sync_optimizer_state,
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

    def experiment(self, workload: WorkloadSpec, verb: str, environment: EnvironmentRecord) -> Experiment:
        """A new experiment, or the one to go on with.

        Raises:
            ConfigError: see ``suite.quality.library``.
        """
        if self.resume is None:
            return new_experiment(self.runs, workload, verb, environment)
        return open_experiment(self.resume, environment)


def tell_where(experiment: Experiment, console: Console) -> None:
    """Where an experiment is kept, before it begins: what ends it may leave no time to say so."""
    console.print(f"Experiment: {relative(experiment.path)}", soft_wrap=True)


def train_all(
    what: str, trainings: Sequence[Training], experiment: Experiment, jobs: int, console: Console
) -> None:
    """Trains what the experiment lacks, with progress. Ctrl-C says how to go on."""
    try:
        with counted(what, console) as done:
            run_all(trainings, experiment, jobs, done)
    except KeyboardInterrupt:
        console.print(
            f"Finished trainings are kept; go on with --resume {relative(experiment.path)}", soft_wrap=True
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
