"""``sparse2d parity``: is a model trained in 2D as good as one trained in 1D?"""

from __future__ import annotations

from typing import Annotated, cast

import typer
from rich.console import Console

from suite.catalog import load_workload
from suite.cli.failures import VERDICT_FAILED, relative
from suite.cli.lab import (
    OPTIMIZERS,
    SYNC_INTERVAL,
    SYNC_OPTIMIZER_STATE,
    LabOptions,
    checked_seeds,
    tell_start,
    train_all,
)
from suite.cli.lab_tables import show_parity
from suite.cli.run import Workload
from suite.cli.streams import messages
from suite.cli.verb import Result, verb
from suite.environment import capture
from suite.errors import ConfigError
from suite.quality.checks import check_training
from suite.quality.parity import judge
from suite.quality.spec import Schedule
from suite.spec import SyncOptimizerState

PASSED = ("equivalent", "better")
#: Of the 2D arm.
OPTIMIZER = "momentum_scaled_rowwise_adagrad"


@verb("parity")
def parity(
    workload: Workload,
    options: LabOptions,
    replica_groups: Annotated[int, typer.Option(help="M of the 2D arm.")] = 4,
    optimizer: Annotated[
        str, typer.Option(metavar="NAME", help=f"Of the 2D arm's tables. One of {OPTIMIZERS}.")
    ] = OPTIMIZER,
    scale: Annotated[
        float | None, typer.Option(help="c of momentum_scaled_rowwise_adagrad.  [default: M]")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the 2D arm's tables.")] = None,
    baseline_optimizer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the 1D arm's tables.")
    ] = None,
    baseline_learning_rate: Annotated[float | None, typer.Option(help="Of the 1D arm's tables.")] = None,
    sync_interval: Annotated[int, typer.Option(help=SYNC_INTERVAL)] = 1,
    sync_optimizer_state: Annotated[
        str, typer.Option(metavar="NAME", help=SYNC_OPTIMIZER_STATE)
    ] = "immediate",
    seeds: Annotated[
        int | None, typer.Option(help="Pairs of trainings: seeds 0, 1, 2, ...  [default: the workload's, 18]")
    ] = None,
    curve_points: Annotated[int, typer.Option(help="How often each training is scored.")] = 6,
    target_auc: Annotated[
        float | None,
        typer.Option(help="For samples to target.  [default: the 1D arm's last AUC less ten margins]"),
    ] = None,
) -> Result:
    """Judge whether a model trained in 2D is as good as one trained in 1D.

    Both arms train on the same samples from the same initial weights, seed by seed, in M virtual groups
    inside one process: the exact mathematics of 2D, without communication (emulated). The margins are the
    workload's. Exit code 0 when 2D is equivalent or better, 1 when it is worse or the seeds cannot tell.

    \b
    Examples:
      sparse2d parity movielens_100k
      sparse2d parity movielens_100k --replica-groups 64
      sparse2d parity movielens_100k --sync-interval 8 --seeds 20 --json
      sparse2d parity movielens_100k --resume runs/movielens_100k/.../...-parity
    """
    spec = load_workload(workload, options.data)
    if target_auc is not None and not 0 < target_auc <= 1:
        raise ConfigError(
            "target_auc", target_auc, "an AUC is above 0 and at most 1.", "Use one that a training reaches."
        )
    pairs = checked_seeds(spec.parity.seeds if seeds is None else seeds)
    arms = {
        "baseline": (1, {"name": baseline_optimizer, "learning_rate": baseline_learning_rate}),
        "candidate": (
            replica_groups,
            {"name": optimizer, "learning_rate": learning_rate, "scale": scale},
        ),
    }
    schedule = Schedule(sync_interval, cast("SyncOptimizerState", sync_optimizer_state))
    trainings = {
        arm: [options.training(spec, groups, chosen, seed, curve_points, schedule) for seed in range(pairs)]
        for arm, (groups, chosen) in arms.items()
    }
    jobs = options.processes()
    about = check_training(trainings["baseline"][0])
    environment = capture(None)
    one_d, two_d = (of[0].optimizer for of in trainings.values())
    experiment = options.experiment(
        spec,
        "parity",
        environment,
        trainings["candidate"][0],
        about,
        replica_groups=replica_groups,
        optimizer=two_d.name,
        scale=two_d.scale,
        learning_rate=two_d.learning_rate,
        baseline_optimizer=one_d.name,
        baseline_learning_rate=one_d.learning_rate,
        sync_interval=sync_interval,
        sync_optimizer_state=sync_optimizer_state,
        curve_points=curve_points,
        target_auc=target_auc,
        seeds=pairs,
    )
    # Pair by pair, so that an experiment that is ended has whole pairs.
    order = [t for pair in zip(*trainings.values(), strict=True) for t in pair]
    tell_start(experiment, [replica_groups], trainings["candidate"][0].global_batch, messages())
    train_all("training", order, experiment, jobs, messages())
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
        decided = next(check for check in judged.checks if check.metric == judged.metric)
        if not decided.learnt:
            out.print(
                "Train longer (--steps): no number of seeds tells two models apart that learnt nothing."
            )
        elif judged.verdict == "inconclusive" and (decided.seeds_needed or 0) > pairs:
            out.print(
                f"To tell, at this spread: the same command with --seeds {decided.seeds_needed} "
                f"--resume {relative(experiment.path)}",
                soft_wrap=True,
            )
        out.print(f"Experiment: {relative(path)}", soft_wrap=True)

    return Result(
        body | {"experiment": relative(experiment.path)},
        show,
        exit_code=0 if judged.verdict in PASSED else VERDICT_FAILED,
        flags=environment.flags,
    )
