"""``sparse2d parity``: is a model trained in 2D as good as one trained in 1D?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console

from suite.catalog import load_workload
from suite.cli.failures import VERDICT_FAILED, relative
from suite.cli.options import Runs
from suite.cli.progress import counted
from suite.cli.streams import messages
from suite.cli.lab_tables import show_parity
from suite.cli.verb import Result, verb
from suite.environment import available_cores, capture
from suite.errors import ConfigError
from suite.quality.checks import check_training
from suite.quality.library import new_experiment, open_experiment
from suite.quality.parity import judge
from suite.quality.pool import run_all
from suite.quality.spec import Training, VirtualOptimizer, VirtualOptimizerName
from suite.spec import SyncOptimizerState, WorkloadSpec, validated

PASSED = ("equivalent", "better")
OPTIMIZERS = ", ".join(get_args(VirtualOptimizerName))


@dataclass(frozen=True)
class LabOptions:
    """What the verbs of the quality lab share. What is left out is the workload's own default."""

    eps: Annotated[float | None, typer.Option(help="Added to the root of the second moment.")] = None
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
    jobs: Annotated[
        int | None, typer.Option(help="Trainings at once, one a core.  [default: the cores]")
    ] = None
    data: Annotated[
        str | None, typer.Option(metavar="PATH", help="Your own folder with the workload's data.")
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of an experiment that was ended: train what it lacks."),
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
                "global_batch": workload.batch.global_size if self.global_batch is None else self.global_batch,
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


@verb("parity")
def parity(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD", help="A name (`sparse2d workloads`), module:function or file.toml."
        ),
    ],
    options: LabOptions,
    replica_groups: Annotated[int, typer.Option(help="M of the 2D arm.")] = 4,
    optimizer: Annotated[
        str, typer.Option(metavar="NAME", help=f"Of the 2D arm's tables. One of {OPTIMIZERS}.")
    ] = "momentum_scaled_rowwise_adagrad",
    scale: Annotated[
        float | None, typer.Option(help="c of momentum_scaled_rowwise_adagrad.  [default: M]")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the 2D arm's tables.")] = None,
    baseline_optimizer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the 1D arm's tables.")
    ] = None,
    baseline_learning_rate: Annotated[float | None, typer.Option(help="Of the 1D arm's tables.")] = None,
    seeds: Annotated[int, typer.Option(help="Pairs of trainings: seeds 0, 1, 2, ...")] = 10,
    curve_points: Annotated[int, typer.Option(help="How often each training is scored.")] = 6,
    target_auc: Annotated[
        float | None,
        typer.Option(help="For samples to target.  [default: the 1D arm's last AUC less ten margins]"),
    ] = None,
) -> Result:
    """Judge whether a model trained in 2D is as good as one trained in 1D.

    Both arms train on the same samples from the same initial weights, seed by seed, in M virtual groups inside
    one process: the exact mathematics of 2D, without communication (emulated). The margins are the
    workload's. Exit code 0 when 2D is equivalent or better, 1 when it is worse or the seeds cannot tell.

    \b
    Examples:
      sparse2d parity movielens_100k
      sparse2d parity movielens_100k --replica-groups 64 --optimizer rowwise_adagrad
      sparse2d parity movielens_100k --replica-groups 16 --sync-interval 8 --seeds 20 --json
      sparse2d parity movielens_100k --resume runs/movielens_100k/c57b84fc0fc2148c/20260131T101500Z-3fa1c2-parity
    """
    spec = load_workload(workload, options.data)
    if not 1 <= seeds <= 1000:
        raise ConfigError("seeds", seeds, "this many pairs cannot be trained.", "Use 1 to 1000; 10 is usual.")
    arms = {
        "baseline": (1, {"name": baseline_optimizer, "learning_rate": baseline_learning_rate}),
        "candidate": (
            replica_groups,
            {"name": optimizer, "learning_rate": learning_rate, "scale": scale},
        ),
    }
    trainings = {
        arm: [options.training(spec, groups, chosen, seed, curve_points) for seed in range(seeds)]
        for arm, (groups, chosen) in arms.items()
    }
    jobs = options.processes()
    check_training(trainings["baseline"][0])
    environment = capture(None)
    experiment = (
        new_experiment(options.runs, spec, "parity", environment)
        if options.resume is None
        else open_experiment(options.resume, environment)
    )
    console = messages()
    # Pair by pair, so that an experiment that is ended has whole pairs.
    order = [t for pair in zip(*trainings.values(), strict=True) for t in pair]
    try:
        with counted("training", console) as done:
            run_all(order, experiment, jobs, done)
    except KeyboardInterrupt:
        console.print(f"Finished trainings are kept; go on with --resume {relative(experiment.path)}")
        raise
    results = {arm: [experiment.finished[t.training_hash] for t in ts] for arm, ts in trainings.items()}
    judged = judge(results["baseline"], results["candidate"], spec.parity, target_auc)
    body = {
        "workload": spec.name,
        "spec_hash": spec.spec_hash,
        "provenance": "emulated",
        **judged.model_dump(mode="json"),
    }
    path = experiment.conclude(body)

    def show(out: Console) -> None:
        show_parity(spec, judged, out)
        out.print(f"Experiment: {relative(path)}", soft_wrap=True)

    return Result(
        body | {"experiment": relative(experiment.path)},
        show,
        exit_code=0 if judged.verdict in PASSED else VERDICT_FAILED,
        flags=environment.flags,
    )
