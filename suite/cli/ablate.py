"""``sparse2d ablate``: is it the layout or the optimizer?"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, cast, get_args

import typer
from rich.console import Console

from reference_impl.layout import PLACEMENTS
from suite.catalog import load_workload
from suite.cli.failures import relative
from suite.cli.lab import (
    OPTIMIZERS,
    SYNC_INTERVAL,
    SYNC_OPTIMIZER_STATE,
    LabOptions,
    checked_seeds,
    going_on,
    tell_start,
    train_all,
)
from suite.cli.lab_tables import show_ablation, show_throughput
from suite.cli.options import RunOptions, whole_numbers
from suite.cli.progress import counted, shown
from suite.cli.run import Workload
from suite.cli.streams import messages
from suite.cli.verb import Result, verb
from suite.environment import capture
from suite.errors import ConfigError
from suite.launchers.slurm import is_inside
from suite.quality import plots
from suite.quality.ablation import PLAIN, SCALED, ArmKey, Design
from suite.quality.checks import check_training
from suite.quality.library import Experiment
from suite.quality.parity import default_target, samples_to_target, values
from suite.quality.spec import Schedule, Training, VirtualOptimizerName
from suite.quality.throughput import Throughput, measure
from suite.quality.throughput import cells as throughput_cells
from suite.quality.throughput import conclude as conclude_throughput
from suite.session import open_launcher
from suite.spec import BatchSpec, RunSpec, SyncOptimizerState, WorkloadSpec, validated

#: Points of a learning curve from which samples to a target are read off.
CURVE_POINTS = 12
MOST_LAUNCHES = 1000
MOST_MULTIPLE = 1e6


@dataclass(frozen=True)
class RankOptions:
    """Where the ranks of ``--throughput`` run. Fields are options of ``sparse2d run``, with its defaults."""

    launcher: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Of --throughput: local, or slurm inside an allocation.  [default: local]"
        ),
    ] = None
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of --throughput: cpu or cuda.  [default: cpu]")
    ] = None
    ranks_per_host: Annotated[
        int | None,
        typer.Option(help="Of --throughput: hosts are T over it.  [default: all ranks on one host]"),
    ] = None
    placement: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help=f"Of --throughput: which ranks form a group. One of {', '.join(PLACEMENTS)}."
        ),
    ] = None

    def check(self, throughput: bool) -> None:
        """Refuses what would do nothing, or cannot be.

        Raises:
            ConfigError: naming the option.
        """
        for name, value in dataclasses.asdict(self).items():
            if value is not None and not throughput:
                raise ConfigError(
                    name, value, "virtual groups need no ranks.", "Add --throughput, or leave it out."
                )
        if self.launcher == "torchrun":
            raise ConfigError("launcher", "torchrun", "one start by it is one launch.", "Use local or slurm.")
        if self.launcher == "slurm" and not is_inside():
            raise ConfigError(
                "launcher",
                "slurm",
                "cells take turns inside one allocation, and this process is in none.",
                "Begin with `salloc`.",
            )


@verb("ablate")
def ablate(
    workload: Workload,
    options: LabOptions,
    replica_groups: Annotated[str, typer.Option(metavar="M,...", help="Of the 2D layouts.")] = "4,16,64",
    optimizers: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Of the tables, in every layout. Some of {OPTIMIZERS}.")
    ] = f"{PLAIN},{SCALED},frequency_scaled_rowwise_adagrad",
    sync_interval: Annotated[
        str, typer.Option(metavar="K,...", help=f"{SYNC_INTERVAL} Every 2D arm is there with each.")
    ] = "1",
    sync_optimizer_state: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"{SYNC_OPTIMIZER_STATE[:-1]}, or both.")
    ] = "immediate",
    learning_rate: Annotated[
        float | None, typer.Option(help="Of the tables, shared by all arms.  [default: the workload's]")
    ] = None,
    multiples: Annotated[
        str,
        typer.Option(
            metavar="X,...", help="The grid that tunes each arm, as multiples of the shared learning rate."
        ),
    ] = "0.5,1,2,4,8,16",
    seeds: Annotated[int, typer.Option(help="Paired seeds that judge: 0, 1, 2, ...")] = 10,
    tuning_seeds: Annotated[int, typer.Option(help="Seeds that tune, others than those that judge.")] = 2,
    throughput: Annotated[
        bool,
        typer.Option("--throughput", help="Measure step times on real ranks, too."),
    ] = False,
    world_size: Annotated[int, typer.Option(help="T of these ranks; every M that divides it is run.")] = 4,
    launches: Annotated[int, typer.Option(help="Launches of each of these cells, taking turns.")] = 5,
    *,
    ranks: RankOptions,
) -> Result:
    """Tell what the layout does to quality from what the optimizer and its learning rate do.

    Trains {1D, 2D of M groups} x optimizers at one shared learning rate and at each arm's own best, tuned
    with the same budget; reports each arm against 1D, the effects and their interaction, what is lost by
    keeping 1D's learning rate, and how much faster second moments grow in 2D. Emulated: exact mathematics of
    virtual groups in one process. Some minutes for movielens_100k; an ablation that was ended goes on with
    --resume.

    With --throughput also the step time of the same factorial on T real ranks (measured), and with the
    samples that each cell needs to a target AUC (emulated) the time to it.

    \b
    Examples:
      sparse2d ablate movielens_100k
      sparse2d ablate movielens_100k --replica-groups 16 --seeds 20 --json
      sparse2d ablate movielens_100k --optimizers rowwise_adagrad,sgd,adam
      sparse2d ablate movielens_100k --replica-groups 16 --sync-interval 1,4,8
      sparse2d ablate movielens_100k --replica-groups 2 --throughput
      sparse2d ablate smoke --replica-groups 2 --throughput --launcher slurm
    """
    spec = load_workload(workload, options.data)
    checked_seeds(seeds)
    if not 1 <= tuning_seeds <= 100:
        raise ConfigError("tuning_seeds", tuning_seeds, "there is nothing to tune with.", "Use 1 to 100.")
    groups = sorted(set(whole_numbers(replica_groups, "replica_groups")) - {1})
    if not groups:
        raise ConfigError("replica_groups", replica_groups, "there is no 2D layout.", "Name one, such as 4.")
    names = _optimizers(optimizers)
    shared = spec.defaults.optimizer.learning_rate if learning_rate is None else learning_rate
    schedules = _schedules(sync_interval, sync_optimizer_state, throughput)
    rates = _grid(multiples, shared)

    def make(arm: ArmKey, rate: float, seed: int) -> Training:
        chosen: dict[str, Any] = {"name": arm.optimizer, "learning_rate": rate, "scale": arm.scale}
        points = CURVE_POINTS if throughput else 1
        return options.training(spec, arm.groups, chosen, seed, points, arm.schedule)

    design = Design(groups, names, rates, shared, seeds, tuning_seeds, make, schedules)
    tuning = design.tuning()
    jobs = options.processes()
    ranks.check(throughput)
    cells = (
        _cells(spec, options, ranks, groups, names, shared, schedules[0], world_size, launches)
        if throughput
        else None
    )
    about = check_training(tuning[0])
    environment = capture(None)
    experiment = options.experiment(
        spec,
        "ablate",
        environment,
        tuning[0],
        about,
        replica_groups=groups,
        optimizers=names,
        sync_interval=[schedule.interval for schedule in schedules],
        sync_optimizer_state=[schedule.state for schedule in schedules],
        learning_rate=shared,
        multiples=rates,
        tuning_seeds=tuning_seeds,
        throughput=throughput,
        world_size=world_size if throughput else None,
        launches=launches if throughput else None,
        **dataclasses.asdict(ranks),
        seeds=seeds,
    )
    console = messages()
    tell_start(experiment, groups, tuning[0].global_batch, console)
    train_all("tuning", tuning, experiment, jobs, console, may_diverge=True)
    train_all("judging", design.judging(experiment.finished), experiment, jobs, console)
    found = design.conclude(experiment.finished, spec.parity)
    ratios = _moment_ratios(
        [make(ArmKey(m, PLAIN, None, schedules[0]), shared, 0) for m in (1, *groups)],
        experiment,
        jobs,
        console,
    )
    speed = None if cells is None else _measure(cells, launches, design, experiment, options, spec, console)
    pictures = [relative(p) for p in plots.draw(found, experiment, f"{spec.name}, emulated")]
    body = {
        "workload": spec.name,
        "spec_hash": spec.spec_hash,
        "provenance": "emulated",
        **found.model_dump(mode="json"),
        "moment_ratios": ratios,
        "throughput": None if speed is None else speed.model_dump(mode="json"),
        "plots": pictures,
    }
    path = experiment.conclude(body)

    def show(out: Console) -> None:
        show_ablation(spec, found, ratios, out)
        if speed is not None:
            show_throughput(speed, out)
        for picture in pictures:
            out.print(f"Plot: {picture}", soft_wrap=True)
        out.print(f"Experiment: {relative(path)}", soft_wrap=True)

    return Result(body | {"experiment": relative(experiment.path)}, show, flags=environment.flags)


def _optimizers(text: str) -> list[str]:
    known = get_args(VirtualOptimizerName)
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in known:
            raise ConfigError(
                "optimizers", name, "there is no optimizer of this name.", f"Use some of {OPTIMIZERS}."
            )
    if PLAIN not in names:
        raise ConfigError(
            "optimizers", text, f"1D with {PLAIN} is what every arm is judged against.", f"Add {PLAIN}."
        )
    return names


def _grid(text: str, shared: float) -> list[float]:
    try:
        multiples = sorted({float(part) for part in text.split(",")} | {1.0})
    except ValueError as error:
        raise ConfigError(
            "multiples", text, "it is not a list of numbers.", "Write them like 0.5,1,2,4."
        ) from error
    if not all(0 < multiple <= MOST_MULTIPLE for multiple in multiples):
        raise ConfigError(
            "multiples",
            text,
            "this is no learning rate.",
            f"Use numbers above 0, up to {MOST_MULTIPLE:,.0f}.",
        )
    return [shared * multiple for multiple in multiples]


def _schedules(intervals: str, states: str, throughput: bool) -> list[Schedule]:
    """Each interval with each state, the first being the one that others are held against."""
    found = [
        Schedule(interval, cast("SyncOptimizerState", state))
        for interval in sorted(set(whole_numbers(intervals, "sync_interval")))
        for state in dict.fromkeys(states.split(","))
    ]
    if throughput and len(found) > 1:
        raise ConfigError(
            "sync_interval",
            intervals,
            "with --throughput step times are measured at one schedule.",
            "Give one interval and one state, or leave --throughput out.",
        )
    return found


def _moment_ratios(
    trainings: list[Training], experiment: Experiment, jobs: int, console: Console
) -> list[dict[str, Any]]:
    from suite.quality.moments import kept_moment_ratios  # imports torch

    one, *others = trainings
    with going_on(experiment, console), counted("second moments", console) as done:
        ratios = kept_moment_ratios(one, others, experiment, jobs, done)
    return [ratio.model_dump(mode="json") for ratio in ratios]


def _cells(
    spec: WorkloadSpec,
    options: LabOptions,
    ranks: RankOptions,
    groups: list[int],
    names: list[str],
    shared: float,
    schedule: Schedule,
    world_size: int,
    launches: int,
) -> dict[ArmKey, RunSpec]:
    """The cells of --throughput, checked."""
    if SCALED not in names:
        raise ConfigError(
            "optimizers", names, f"the cells of --throughput have {SCALED}.", f"Add {SCALED} to --optimizers."
        )
    if not 1 <= launches <= MOST_LAUNCHES:
        raise ConfigError("launches", launches, "this many cannot be run.", f"Use 1 to {MOST_LAUNCHES}.")
    if options.global_batch is not None:
        batch = validated(BatchSpec, dict(spec.batch) | {"global_size": options.global_batch}, "batch.")
        spec = spec.model_copy(update={"batch": batch})
    base = RunOptions(
        optimizer=PLAIN,
        learning_rate=shared,
        eps=options.eps,
        steps=options.steps,
        sync_interval=schedule.interval,
        sync_optimizer_state=schedule.state,
        **dataclasses.asdict(ranks),
    )
    return throughput_cells(base.build(spec, world_size), groups)


def _measure(
    cells: dict[ArmKey, RunSpec],
    launches: int,
    design: Design,
    experiment: Experiment,
    options: LabOptions,
    spec: WorkloadSpec,
    console: Console,
) -> Throughput:
    runs = list(cells.values())
    with shown(runs, console) as report:
        took = measure(cells, launches, options.runs, experiment, open_launcher(runs[0].launcher), report)
    trained = {key: design.at_shared(key, experiment.finished) for key in cells}
    target = default_target(values(trained[design.baseline], "auc"), spec.parity)
    needed = {key: samples_to_target(results, target) for key, results in trained.items()}
    return conclude_throughput(cells, took, needed, target)
