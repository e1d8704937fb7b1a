"""The options that ``run`` and ``sweep`` share, and the run they make of a workload."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from reference_impl.layout import PLACEMENTS
from suite.errors import ConfigError
from suite.implementation import BUILT_IN
from suite.session import LAUNCHERS
from suite.spec import (
    DenseOptimizerSpec,
    OptimizerName,
    RunSpec,
    Scaling,
    ShardingType,
    SyncOptimizerState,
    WorkloadSpec,
    validated,
)


def _one_of(values: Any) -> str:
    return f"One of {', '.join(values)}."


DENSE_OPTIMIZERS = get_args(DenseOptimizerSpec.model_fields["name"].annotation)
PROFILE_STEPS = 5
SHARDING_GRAMMAR = "TYPE[,TABLE=TYPE...]"

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
            help="How tables are split inside a group, and those that are split otherwise. TYPE is one of "
            f"{', '.join(get_args(ShardingType))}.",
        ),
    ] = None
    optimizer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Of the embedding tables. {_one_of(get_args(OptimizerName))}"),
    ] = None
    learning_rate: Annotated[float | None, typer.Option(help="Of the embedding tables.")] = None
    eps: Annotated[float | None, typer.Option(help="Added to the root of the second moment.")] = None
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
        int,
        typer.Option(help="Steps taken under the profiler after all others, for the components; 0: none."),
    ] = PROFILE_STEPS
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

    def build(self, workload: WorkloadSpec, world_size: int = 1, replica_groups: int = 1) -> RunSpec:
        """The run of a workload in one layout.

        Raises:
            ConfigError: naming the field of the run that is wrong.
        """
        defaults = workload.defaults
        layout = {"world_size": world_size, "replica_groups": replica_groups, "placement": self.placement}
        run = {
            "implementation": self.implementation,
            "sync": self.sync,
            "sync_interval": self.sync_interval,
            "sync_optimizer_state": self.sync_optimizer_state,
            "scaling": self.scaling,
            "seed": self.seed,
            "device": self.device,
            "launcher": self.launcher,
            "stall_timeout_s": self.stall_timeout,
            "profile_steps": self.profile_steps,
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

    def _sharding(self, default: ShardingType) -> dict[str, Any]:
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
            if kind not in get_args(ShardingType):
                raise ConfigError(
                    "sharding",
                    self.sharding,
                    f"{kind!r} is no sharding type.",
                    f"Write {SHARDING_GRAMMAR}; TYPE is one of {list(get_args(ShardingType))}.",
                )
        return {"sharding": first, "sharding_by_table": tables}

    def _optimizer(self, workload: WorkloadSpec) -> dict[str, Any]:
        default = workload.defaults.optimizer
        # The default's scale belongs to the default's optimizer alone.
        keeps_scale = self.optimizer in (None, default.name)
        chosen = {
            "name": self.optimizer,
            "learning_rate": self.learning_rate,
            "eps": self.eps,
            "scale": _first(self.scale, default.scale if keeps_scale else None),
        }
        dense = {"name": self.dense_optimizer, "learning_rate": self.dense_learning_rate}
        return (
            default.model_dump(exclude={"scale", "dense"})
            | _given(chosen)
            | {"dense": default.dense.model_dump() | _given(dense)}
        )


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
