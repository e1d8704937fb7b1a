"""The options that ``run`` and ``sweep`` share, and the run they make of a workload."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from reference_impl.layout import PLACEMENTS
from reference_impl.optimizer import offered_on
from suite.checkpoints.folder import start_from
from suite.errors import ConfigError, did_you_mean
from suite.implementation import BUILT_IN
from suite.session import LAUNCHERS
from suite.spec import (
    DenseOptimizerSpec,
    ExchangeDtype,
    LayoutSpec,
    OptimizerSpec,
    PipelineName,
    RunSpec,
    Scaling,
    ShardingChoice,
    SyncOptimizerState,
    TrainingDefaults,
    WorkloadSpec,
    validated,
)


def _one_of(values: Any) -> str:
    return f"One of {', '.join(values)}."


ON_CPU = offered_on("cpu")
ON_CUDA_TOO = [name for name in offered_on("cuda") if name not in ON_CPU]
DENSE_OPTIMIZERS = get_args(DenseOptimizerSpec.model_fields["name"].annotation)
#: Fields of the specs whose options are named otherwise.
_FIELDS = {
    "stall_timeout": "stall_timeout_s",
    "dense_optimizer": "optimizer",
    "dense_learning_rate": "optimizer",
}
PROFILE_STEPS = 5
SHARDING_GRAMMAR = "TYPE[,TABLE=TYPE...]"

Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Keep what an earlier call of the same command has finished in --runs, and run the rest.",
    ),
]
Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Folder that the records are in.")]


@dataclass(frozen=True)
class RunOptions:
    """How to run a workload. What is left out is the workload's own default, then the suite's."""

    implementation: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"{_one_of(BUILT_IN)[:-1]}, or module:Class of your own.  [default: reference_2d]",
        ),
    ] = None
    placement: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Which ranks form a group. {_one_of(PLACEMENTS)}"),
    ] = None
    ranks_per_host: Annotated[
        int | None,
        typer.Option(
            help="Ranks of a host: table_row_wise and grid tables are split over them.  [default: all ranks]"
        ),
    ] = None
    planner_timeout: Annotated[
        float | None, typer.Option(help="Seconds that TorchRec's planner may take.  [default: 60]")
    ] = None
    sync: Annotated[
        str | None, typer.Option(metavar="NAME", help="How replicas are averaged. One of dense.")
    ] = None
    sync_interval: Annotated[
        int | None, typer.Option(help="Steps from one averaging of the replicas to the next.  [default: 1]")
    ] = None
    sync_optimizer_state: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Averaged optimizer state is used at once, or from the next averaging on. "
            f"{_one_of(get_args(SyncOptimizerState))}",
        ),
    ] = None
    sharding: Annotated[
        str | None,
        typer.Option(
            metavar=SHARDING_GRAMMAR,
            help="How tables are split inside a group, and those that are split otherwise. planned lets "
            "TorchRec's planner choose, beside what is named. TYPE is one of "
            f"{', '.join(get_args(ShardingChoice))}.",
        ),
    ] = None
    exchange_dtype: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"In what precision pooled vectors travel in a group. {_one_of(get_args(ExchangeDtype))}",
        ),
    ] = None
    pipeline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="TorchRec's train pipeline: the next batch's ids travel during a step. "
            f"{_one_of(get_args(PipelineName))}",
        ),
    ] = None
    optimizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Of the embedding tables. {_one_of(ON_CPU)[:-1]}; on cuda also {', '.join(ON_CUDA_TOO)}.",
        ),
    ] = None
    learning_rate: Annotated[float | None, typer.Option(help="Of the embedding tables.")] = None
    eps: Annotated[float | None, typer.Option(help="Added to the square root of the second moment.")] = None
    initial_accumulator: Annotated[
        float | None, typer.Option(help="Where the sum of squares of the AdaGrad kinds starts.  [default: 0]")
    ] = None
    scale: Annotated[
        float | None,
        typer.Option(help="c of momentum_scaled_rowwise_adagrad.  [default: the replica groups M]"),
    ] = None
    dense_optimizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Of the dense layers. {_one_of(DENSE_OPTIMIZERS)}",
        ),
    ] = None
    dense_learning_rate: Annotated[float | None, typer.Option(help="Of the dense layers.")] = None
    scaling: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"strong keeps the global batch, weak the batch per rank. {_one_of(get_args(Scaling))}",
        ),
    ] = None
    steps: Annotated[int | None, typer.Option(help="Steps trained, warm-up included.")] = None
    warmup_steps: Annotated[int | None, typer.Option(help="First steps, left out of the step time.")] = None
    launches: Annotated[
        int | None, typer.Option(help="Fresh starts of all ranks: the samples of the statistics.")
    ] = None
    launcher: Annotated[str | None, typer.Option(metavar="NAME", help=_one_of(LAUNCHERS))] = None
    seed: Annotated[int | None, typer.Option(help="Of initial weights and data.")] = None
    device: Annotated[str | None, typer.Option(metavar="NAME", help="One of cpu, cuda.")] = None
    profile_steps: Annotated[
        int | None,
        typer.Option(
            help="Steps taken under the profiler after all others, for the components; 0: none.  "
            f"[default: {PROFILE_STEPS}; none under --pipeline]"
        ),
    ] = None
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="[RANKS]",
            help="Keep the profiler's traces: of all ranks, of the slowest (--trace slowest), or of some "
            "(--trace 0,3).",
        ),
    ] = None
    stall_timeout: Annotated[
        float | None, typer.Option(help="Seconds without progress after which a launch is ended.")
    ] = None
    data: Annotated[
        str | None, typer.Option(metavar="PATH", help="Your own folder with the workload's data.")
    ] = None
    runs: Runs = Path("runs")

    @staticmethod
    def left_out(name: str) -> str | None:
        """What an option is that is left out, for the help: the workload's own, or the spec's default."""
        name = _FIELDS.get(name, name)
        if name in TrainingDefaults.model_fields or name in OptimizerSpec.model_fields:
            return "the workload's"
        for spec in (RunSpec, LayoutSpec):
            if name in spec.model_fields:
                default = spec.model_fields[name].default
                return None if default is None else str(default)
        return None

    def build(self, workload: WorkloadSpec, world_size: int = 1, replica_groups: int = 1) -> RunSpec:
        """The run of a workload in one layout.

        Raises:
            ConfigError: naming the field of the run that is wrong.
        """
        defaults = workload.defaults
        layout = {
            "world_size": world_size,
            "replica_groups": replica_groups,
            "placement": self.placement,
            "ranks_per_host": self.ranks_per_host,
            "planner_timeout_s": self.planner_timeout,
        }
        run = {
            "implementation": self.implementation,
            "exchange_dtype": self.exchange_dtype,
            "pipeline": self.pipeline,
            "sync": self.sync,
            "sync_interval": self.sync_interval,
            "sync_optimizer_state": self.sync_optimizer_state,
            "scaling": self.scaling,
            "seed": self.seed,
            "device": self.device,
            "launcher": self.launcher,
            "stall_timeout_s": self.stall_timeout,
            "profile_steps": _first(
                self.profile_steps, PROFILE_STEPS if self.pipeline in (None, "none") else 0
            ),
            "trace": self.trace,
            "steps": _first(self.steps, defaults.steps),
            "warmup_steps": _first(self.warmup_steps, defaults.warmup_steps),
            "launches": _first(self.launches, defaults.launches),
        }
        return validated(
            RunSpec,
            _given(run)
            | {
                "workload": workload,
                "layout": _given(layout) | self._sharding(defaults.sharding),
                "optimizer": self._optimizer(workload),
            },
        )

    def _sharding(self, default: ShardingChoice) -> dict[str, Any]:
        if self.sharding is None:
            return {"sharding": default}
        first, *others = self.sharding.split(",")
        tables = {}
        for part in others:
            table, separator, kind = part.partition("=")
            if not separator or not table or table in tables:
                raise ConfigError(
                    "sharding",
                    self.sharding,
                    f"{part!r} is not TABLE=TYPE, or names a table again.",
                    f"Write {SHARDING_GRAMMAR}, for example table_wise,user_id=row_wise.",
                )
            tables[table] = kind
        for kind in (first, *tables.values()):
            if kind not in get_args(ShardingChoice):
                raise ConfigError(
                    "sharding",
                    self.sharding,
                    f"{kind!r} is no sharding type.",
                    f"{did_you_mean(kind, get_args(ShardingChoice))}Write {SHARDING_GRAMMAR}; TYPE is one of "
                    f"{list(get_args(ShardingChoice))}.",
                )
        return {"sharding": first, "sharding_by_table": tables}

    def _optimizer(self, workload: WorkloadSpec) -> dict[str, Any]:
        default = workload.defaults.optimizer
        # The default's scale and accumulator belong to the default's optimizer alone.
        keeps = self.optimizer in (None, default.name)
        chosen = {
            "name": self.optimizer,
            "learning_rate": self.learning_rate,
            "eps": self.eps,
            "scale": _first(self.scale, default.scale if keeps else None),
            "initial_accumulator": _first(
                self.initial_accumulator, default.initial_accumulator if keeps else None
            ),
        }
        dense = {"name": self.dense_optimizer, "learning_rate": self.dense_learning_rate}
        return (
            default.model_dump(exclude={"scale", "initial_accumulator", "dense"})
            | _given(chosen)
            | {"dense": default.dense.model_dump() | _given(dense)}
        )


@dataclass(frozen=True)
class CheckpointOptions:
    """Where a training's state is kept, and where it begins."""

    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Keep the training's state in DIR/step....")
    ] = None
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Steps from one checkpoint to the next.  [default: one, at the end]")
    ] = None
    start_from: Annotated[
        str | None,
        typer.Option(metavar="DIR/STEP", help="Go on from this checkpoint, in this or another layout."),
    ] = None

    def apply(self, run: RunSpec) -> RunSpec:
        """The same run with checkpoints.

        Raises:
            ConfigError: an option that is not valid, or a checkpoint that is none.
        """
        if self.checkpoint is None and self.checkpoint_every is not None:
            raise ConfigError(
                "checkpoint_every", self.checkpoint_every, "nothing is kept.", "Say with --checkpoint where."
            )
        changes: dict[str, Any] = {}
        if self.checkpoint is not None:
            every = _first(self.checkpoint_every, run.steps)
            changes["checkpoint"] = {"folder": self.checkpoint, "every": every}
        if self.start_from is not None:
            changes["start"] = start_from(Path(self.start_from))
        return validated(RunSpec, dict(run) | changes) if changes else run


def with_traced_ranks(arguments: Sequence[str]) -> list[str]:
    """``--trace`` alone means all ranks; Typer has no option whose value may be left out."""
    given: list[str] = []
    for place, argument in enumerate(arguments):
        given.append(argument)
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        if argument == "--trace" and not re.match(r"(all|slowest)$|\d", following):
            given.append("all")
    return given


def whole_numbers(text: str, field: str) -> list[int]:
    """``1,2,4`` as numbers.

    Raises:
        ConfigError: a part is not a whole number.
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(
            field, text, "it is not a list of whole numbers.", "Write them like 1,2,4."
        ) from error


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Those options that are not left out."""
    return {name: value for name, value in options.items() if value is not None}


def _first(given: Any, default: Any) -> Any:
    return default if given is None else given
