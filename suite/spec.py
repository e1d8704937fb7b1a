"""What is run, frozen and validated when built.

``WorkloadSpec`` says what is trained on what: model, tables, data, batch. Its hash names the series of
measurements it belongs to. ``RunSpec`` adds how: implementation, layout, optimizer, steps, launches.
Nothing here imports torch, so that bad input is refused in milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from reference_impl.errors import InvalidConfiguration
from reference_impl.layout import Placement, RankLayout, leaves_none_empty
from reference_impl.optimizer import KINDS, offered_on
from reference_impl.optimizer import Name as OptimizerName
from suite.errors import ConfigError, did_you_mean

Model = TypeVar("Model", bound=BaseModel)


def _fits_float32(value: float) -> float:
    if not 1e-30 <= value <= 1e30:
        raise ValueError("float32 arithmetic needs it between 1e-30 and 1e30")
    return value


Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=64)]
Reference = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
Positive = Annotated[int, Field(strict=True, ge=1, le=2**53)]
#: A factor that the kernels compute with in float32, with room for its product with a square root.
Factor = Annotated[float, Field(gt=0), AfterValidator(_fits_float32)]
Scaling = Literal["strong", "weak"]
ShardingType = Literal["table_wise", "row_wise", "column_wise", "table_row_wise", "grid", "data_parallel"]
#: A type by hand, or TorchRec's planner's choice.
ShardingChoice = Literal[ShardingType, "planned"]
SyncOptimizerState = Literal["immediate", "delayed"]
ExchangeDtype = Literal["fp32", "fp16", "bf16"]
PipelineName = Literal["none", "sparse_dist"]


class Frozen(BaseModel):
    """Immutable, and closed: an unknown field is an error, never ignored."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, json_schema_serialization_defaults_required=True
    )


#: TorchRec keeps tables by name in a torch.nn.ModuleDict, which refuses the names of its own attributes.
_TAKEN_TABLE_NAMES = frozenset(
    """
    T_destination add_module apply bfloat16 buffers call_super_init children clear compile cpu cuda double
    dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half
    ipu items keys load_state_dict modules mtia named_buffers named_children named_modules
    named_parameters parameters pop register_backward_hook register_buffer register_forward_hook
    register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
    register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module
    register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
    set_extra_state set_submodule share_memory state_dict to to_empty train training type update values
    xpu zero_grad
    """.split()  # noqa: SIM905 - sixty lines of quotes would say no more
)


class TableSpec(Frozen):
    """One embedding table and the features that look it up."""

    name: Name
    rows: Annotated[int, Field(strict=True, ge=1, le=2**40)]
    dim: Annotated[int, Field(strict=True, ge=4, le=1024, multiple_of=4)]
    features: Annotated[tuple[Name, ...], Field(min_length=1)]
    #: ``none`` gives one vector an id (TorchRec's EmbeddingCollection), for a model of the user's own.
    pooling: Literal["sum", "mean", "none"] = "sum"
    dtype: Literal["fp32", "fp16"] = "fp32"
    #: Ids that a feature holds per sample (what TorchRec's planner calls the pooling factor).
    pooling_factor: Annotated[float, Field(gt=0, le=1e6)] = 1.0

    @field_validator("name")
    @classmethod
    def _torch_can_hold_the_name(cls, name: str) -> str:
        if name in _TAKEN_TABLE_NAMES:
            raise InvalidConfiguration(
                "tables.name",
                name,
                "TorchRec cannot hold a table of this name.",
                f"Choose another, for example {name}_table.",
            )
        return name


class CrossSpec(Frozen):
    """The cross layers of TorchRec's DLRM_DCN: how many, and the rank of their matrices."""

    layers: Positive
    low_rank: Positive


class ModelSpec(Frozen):
    """TorchRec's DLRM, with ``cross`` its DLRM_DCN, or the user's own model.

    ``factory`` is ``module:function``; called with ``(workload, device)`` it returns an ``nn.Module``
    whose EmbeddingBagCollections (and EmbeddingCollections, for tables with pooling ``none``) hold
    exactly the workload's tables and whose ``forward(dense, sparse)`` returns one logit a sample.
    """

    #: DLRM needs at least one.
    dense_features: Annotated[int, Field(strict=True, ge=0)]
    bottom_mlp: tuple[Positive, ...] = ()
    over_mlp: tuple[Positive, ...] = ()
    cross: CrossSpec | None = None
    factory: Reference | None = None


class DataSpec(Frozen):
    """Where samples come from: ``source`` is ``module:attribute`` (see ``suite.data.open_source``)."""

    source: Reference
    options: dict[str, Any] = {}
    #: A folder of the user's own with the data. Not part of the hash: the record holds a fingerprint
    #: of the data itself, and records of unlike data are not compared.
    location: str | None = None

    @field_validator("options")
    @classmethod
    def _ranks_read_the_same(cls, options: dict[str, Any]) -> dict[str, Any]:
        for name, value in options.items():
            try:
                survives = json.loads(json.dumps(value, allow_nan=False)) == value
            except (TypeError, ValueError, RecursionError):
                survives = False
            if not survives:
                raise InvalidConfiguration(
                    f"data.options.{name}",
                    str(value),
                    "options reach the ranks and the record as JSON, and this would not survive it.",
                    "Use strings, finite numbers, booleans, and lists and dictionaries of these.",
                )
        return options


class BatchSpec(Frozen):
    """Samples a step: strong scaling keeps ``global_size``, weak scaling takes T * ``per_rank``."""

    global_size: Positive
    per_rank: Positive


class DenseOptimizerSpec(Frozen):
    """The optimizer of the dense (data-parallel) parameters."""

    name: Literal["sgd", "adagrad"] = "adagrad"
    learning_rate: Factor = 0.01


def refuse_scale(optimizer: str, scale: float | None) -> None:
    """Refuses a momentum scale c for an optimizer that has none.

    Raises:
        InvalidConfiguration: ``optimizer.scale``.
    """
    if scale is not None and optimizer != "momentum_scaled_rowwise_adagrad":
        raise InvalidConfiguration(
            "optimizer.scale",
            scale,
            f"{optimizer} has no momentum scale.",
            "Leave it out, or choose momentum_scaled_rowwise_adagrad.",
        )


class OptimizerSpec(Frozen):
    """The optimizer of the embedding tables, fused into FBGEMM's backward, and the dense one.

    Which there are on a device: ``reference_impl.optimizer.KINDS``. ``scale`` is the c of momentum-scaled
    row-wise AdaGrad; left out it is M, the number of replica groups. ``initial_accumulator`` is where the sum
    of squares of the AdaGrad kinds starts.
    """

    name: OptimizerName = "rowwise_adagrad"
    learning_rate: Factor = 0.04
    eps: Factor = 1e-8
    scale: Factor | None = None
    initial_accumulator: Annotated[float, Field(ge=0, le=1e30)] = 0.0
    dense: DenseOptimizerSpec = DenseOptimizerSpec()

    @model_validator(mode="after")
    def _scale_needs_momentum_scaling(self) -> OptimizerSpec:
        refuse_scale(self.name, self.scale)
        return self

    @model_validator(mode="after")
    def _accumulator_needs_adagrad(self) -> OptimizerSpec:
        if self.initial_accumulator and not KINDS[self.name].accumulates:
            raise InvalidConfiguration(
                "optimizer.initial_accumulator",
                self.initial_accumulator,
                f"{self.name} accumulates no squares.",
                f"Leave it out, or choose one of {[n for n, kind in KINDS.items() if kind.accumulates]}.",
            )
        return self


class TrainingDefaults(Frozen):
    """What a run of this workload uses where the user says nothing. Not part of the hash."""

    optimizer: OptimizerSpec = OptimizerSpec()
    sharding: ShardingChoice = "table_wise"
    #: Steps trained in all; the first ``warmup_steps`` of them never enter the step-time statistics.
    steps: Positive = 50
    warmup_steps: Positive = 5
    launches: Positive = 1


class ParitySpec(Frozen):
    """What counts as equal quality, fixed before anything is measured. Not part of the hash."""

    #: The metric whose equivalence is the verdict. In the other one only a loss counts.
    metric: Literal["auc", "normalized_entropy"] = "auc"
    #: Absolute. A relative difference of 0.1 % is what production teams count as a change.
    auc_margin: Annotated[float, Field(gt=0, le=0.1)] = 0.001
    #: As a share of the baseline's.
    normalized_entropy_margin: Annotated[float, Field(gt=0, le=0.1)] = 0.001
    #: Pairs of trainings: enough for two equal arms to be found equivalent 9 times of 10.
    seeds: Annotated[int, Field(strict=True, ge=2, le=1000)] = 18


class WorkloadSpec(Frozen):
    """Model, tables, data and batch: everything that names a series of measurements."""

    name: Name
    description: str = ""
    model: ModelSpec
    tables: Annotated[tuple[TableSpec, ...], Field(min_length=1)]
    data: DataSpec
    batch: BatchSpec
    defaults: TrainingDefaults = TrainingDefaults()
    parity: ParitySpec = ParitySpec()

    @field_validator("tables")
    @classmethod
    def _names_once(cls, tables: tuple[TableSpec, ...]) -> tuple[TableSpec, ...]:
        for kind, names in (
            ("table", [t.name for t in tables]),
            ("feature", [f for t in tables for f in t.features]),
        ):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise InvalidConfiguration(
                    "tables",
                    twice,
                    f"the {kind} is named more than once.",
                    f"Give every {kind} its own name.",
                )
        return tables

    @model_validator(mode="after")
    def _dlrm_fits_its_tables(self) -> WorkloadSpec:
        if self.model.factory is not None:
            return self
        if self.model.dense_features == 0:
            raise InvalidConfiguration(
                "model.dense_features", 0, "DLRM's bottom needs dense features.", "Use 1 or more."
            )
        unpooled = [t.name for t in self.tables if t.pooling == "none"]
        if unpooled:
            raise InvalidConfiguration(
                "tables.pooling",
                "none",
                f"DLRM needs one vector a sample of {unpooled}.",
                "Pool by sum or mean, or give a model.factory.",
            )
        dims = sorted({t.dim for t in self.tables})
        if len(dims) > 1:
            raise InvalidConfiguration(
                "tables", dims, "DLRM's interaction needs one embedding dim for all tables.", "Use one dim."
            )
        for field, layers, last in (
            ("model.bottom_mlp", self.model.bottom_mlp, dims[0]),
            ("model.over_mlp", self.model.over_mlp, 1),
        ):
            if not layers or layers[-1] != last:
                raise InvalidConfiguration(
                    field,
                    list(layers),
                    f"DLRM's last layer here must have {last} outputs.",
                    f"End it with {last}.",
                )
        if len(self.model.over_mlp) < 2:  # TorchRec's OverArch refuses fewer
            raise InvalidConfiguration(
                "model.over_mlp",
                list(self.model.over_mlp),
                "DLRM's top needs two layers or more.",
                "Put a hidden layer before the last.",
            )
        return self

    @property
    def features(self) -> tuple[str, ...]:
        """Feature names in the order of the KeyedJaggedTensor's keys."""
        return tuple(f for t in self.tables for f in t.features)

    @property
    def spec_hash(self) -> str:
        """First 16 hex digits of the SHA-256 of model, tables, data and batch in canonical JSON."""
        content = self.model_dump(mode="json", include={"model", "tables", "data", "batch"})
        del content["data"]["location"]
        # A field that came later is left out where it says nothing, so that older hashes stay.
        if content["model"]["cross"] is None:
            del content["model"]["cross"]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class LayoutSpec(Frozen):
    """T, M, placement, and how each table is sharded inside a group."""

    world_size: Annotated[int, Field(strict=True, ge=1, le=8192)] = 1
    replica_groups: Positive = 1
    placement: Placement = "interleaved"
    #: H, the ranks of a host, numbered host by host; left out, all are on one. Table-row-wise and grid tables
    #: are split over the ranks of a host.
    ranks_per_host: Positive | None = None
    sharding: ShardingChoice = "table_wise"
    #: Tables that are sharded otherwise, by name. Beside planned tables, what the planner has to keep to.
    sharding_by_table: dict[str, ShardingChoice] = {}
    #: Seconds that TorchRec's planner may take.
    planner_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 60.0

    @model_validator(mode="after")
    def _groups_divide_ranks(self) -> LayoutSpec:
        self.ranks()
        return self

    def ranks(self) -> RankLayout:
        """The integers of this layout."""
        return RankLayout(self.world_size, self.replica_groups, self.placement, self.ranks_per_host)

    def sharding_of(self, table: str) -> ShardingChoice:
        """The sharding type of one table, or that it is planned."""
        return self.sharding_by_table.get(table, self.sharding)

    @property
    def is_planned(self) -> bool:
        """Whether TorchRec's planner has a say."""
        return "planned" in (self.sharding, *self.sharding_by_table.values())


class StartSpec(Frozen):
    """Where training begins: with the state of a checkpoint, ``samples`` samples into the data stream."""

    #: The checkpoint's folder.
    checkpoint: str
    step: Positive
    samples: Positive


class CheckpointSpec(Frozen):
    """Where states of the training are kept, and after every how many steps."""

    folder: Annotated[str, Field(min_length=1)]
    every: Positive


class RunSpec(Frozen):
    """One configuration, complete: the same RunSpec on the same stack trains the same model."""

    workload: WorkloadSpec
    implementation: str = "reference_2d"
    layout: LayoutSpec = LayoutSpec()
    optimizer: OptimizerSpec = OptimizerSpec()
    #: In what precision pooled vectors and their gradients travel inside a sharding group.
    exchange_dtype: ExchangeDtype = "fp32"
    #: TorchRec's train pipeline: ids of the next batch are exchanged while this one is trained.
    pipeline: PipelineName = "none"
    #: How replicas are averaged; ``dense`` is an all-reduce of whole tables.
    sync: Literal["dense"] = "dense"
    #: Steps from one sync to the next.
    sync_interval: Positive = 1
    #: Whether a sync puts the averaged optimizer state to use at once, or the next one does.
    sync_optimizer_state: SyncOptimizerState = "immediate"
    scaling: Scaling = "strong"
    steps: Positive = 50
    warmup_steps: Positive = 5
    launches: Positive = 1
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**31)] = 0
    device: Literal["cpu", "cuda"] = "cpu"
    launcher: Literal["local", "slurm", "torchrun"] = "local"
    #: Steps taken under the profiler after the evaluation; 0: none. They are in no other figure.
    profile_steps: Annotated[int, Field(strict=True, ge=0, le=1000)] = 0
    #: Whose traces are kept: ``all``, ``slowest`` (the slowest rank's), or ranks like ``0,3``.
    trace: Annotated[str, Field(pattern=r"^(all|slowest|\d+(,\d+)*)$")] | None = None
    #: Seconds without progress after which a launch is ended. Also the process groups' timeout.
    stall_timeout_s: Annotated[float, Field(ge=2, le=3600)] = 60.0
    #: None: initial weights, at the beginning of the data stream.
    start: StartSpec | None = None
    checkpoint: CheckpointSpec | None = None

    @model_validator(mode="after")
    def _consistent(self) -> RunSpec:
        if self.warmup_steps >= self.steps:
            raise InvalidConfiguration(
                "steps",
                self.steps,
                f"no step is left after {self.warmup_steps} warm-up steps.",
                "Use more steps, or a smaller --warmup-steps.",
            )
        known = {t.name for t in self.workload.tables}
        for table in self.layout.sharding_by_table:
            if table not in known:
                raise InvalidConfiguration(
                    "layout.sharding_by_table",
                    table,
                    "the workload has no such table.",
                    f"Use one of {sorted(known)}.",
                )
        self._device_has_the_optimizer()
        self._unpooled_tables_can_be_sharded()
        self._moments_are_not_halves()
        self._trace_can_be_taken()
        self._syncs_can_be_measured()
        self._a_checkpoint_holds_the_state()
        self._checkpoints_are_of_equal_replicas()
        self._shards_are_not_empty()
        return self

    def _device_has_the_optimizer(self) -> None:
        if self.device not in KINDS[self.optimizer.name].devices:
            raise InvalidConfiguration(
                "optimizer.name",
                self.optimizer.name,
                f"FBGEMM has no fused kernel of it on {self.device}.",
                f"Use one of {list(offered_on(self.device))}.",
            )

    def _unpooled_tables_can_be_sharded(self) -> None:
        for table in self.workload.tables:
            sharding = self.layout.sharding_of(table.name)
            if table.pooling == "none" and sharding in ("table_row_wise", "grid", "data_parallel"):
                raise InvalidConfiguration(
                    f"layout.sharding_by_table.{table.name}",
                    sharding,
                    "the table is unpooled, and unpooled tables are not sharded this way.",
                    "Use table_wise, row_wise or column_wise.",
                )

    def _moments_are_not_halves(self) -> None:
        for table in self.workload.tables:
            if table.dtype == "fp16" and self.layout.sharding_of(table.name) == "data_parallel":
                raise InvalidConfiguration(
                    f"tables.{table.name}.dtype",
                    table.dtype,
                    "data-parallel tables keep moments in their own dtype, where squared gradients vanish.",
                    "Use fp32, or another sharding type for this table.",
                )

    def _trace_can_be_taken(self) -> None:
        if self.profile_steps and self.pipeline != "none":
            raise InvalidConfiguration(
                "profile_steps",
                self.profile_steps,
                "a pipeline mixes the components of two steps, and is not taken apart.",
                "Use --profile-steps 0, or leave --pipeline out.",
            )
        if self.trace is None:
            return
        if self.profile_steps == 0:
            raise InvalidConfiguration(
                "trace",
                self.trace,
                "a trace is taken of profiled steps, and there are none.",
                "Use --profile-steps 1 or more.",
            )
        outside = [rank for rank in self.traced_ranks or () if rank >= self.layout.world_size]
        if outside:
            raise InvalidConfiguration(
                "trace",
                self.trace,
                f"there is no rank {outside[0]} among {self.layout.world_size}.",
                f"Use ranks from 0 to {self.layout.world_size - 1}, all, or slowest.",
            )

    @property
    def traced_ranks(self) -> tuple[int, ...] | None:
        """The ranks that ``trace`` names; None where it names none, or the slowest."""
        if self.trace is None or self.trace == "slowest":
            return None
        if self.trace == "all":
            return tuple(range(self.layout.world_size))
        return tuple(int(rank) for rank in self.trace.split(","))

    def _syncs_can_be_measured(self) -> None:
        if self.sync_optimizer_state == "delayed" and not KINDS[self.optimizer.name].states:
            raise InvalidConfiguration(
                "sync_optimizer_state",
                "delayed",
                f"{self.optimizer.name} keeps no optimizer state.",
                "Leave it out, or choose another optimizer.",
            )
        # Bytes are counted over the last sync_interval warm-up steps, and step times must hold a sync.
        most = min(self.warmup_steps, self.steps - self.warmup_steps)
        if self.layout.replica_groups > 1 and self.sync_interval > most:
            raise InvalidConfiguration(
                "sync_interval",
                self.sync_interval,
                f"the run has {self.warmup_steps} warm-up and {self.steps - self.warmup_steps} timed steps, "
                "and a whole interval must fit into each.",
                "Use more steps and warm-up steps, or sync more often.",
            )

    def _a_checkpoint_holds_the_state(self) -> None:
        if self.checkpoint is None and self.start is None:
            return
        kind = KINDS[self.optimizer.name]
        if kind.states and not kind.accumulates:
            raise InvalidConfiguration(
                "optimizer.name",
                self.optimizer.name,
                "FBGEMM's own count of its steps is not in a checkpoint.",
                "Use sgd or one of the AdaGrad kinds, or train without checkpoints.",
            )
        if self.layout.is_planned:
            raise InvalidConfiguration(
                "layout.sharding",
                "planned",
                "another plan may cut columns otherwise, and moments follow the cut.",
                "Shard by hand, or train without checkpoints.",
            )

    def _checkpoints_are_of_equal_replicas(self) -> None:
        if self.checkpoint is None:
            return
        every = self.checkpoint.every
        if self.launches > 1:
            raise InvalidConfiguration(
                "launches",
                self.launches,
                "every launch would write the same checkpoints.",
                "Use one launch.",
            )
        if every > self.steps:
            raise InvalidConfiguration(
                "checkpoint.every",
                every,
                f"the run ends after {self.steps} steps.",
                "Use fewer, or more steps.",
            )
        if self.layout.replica_groups > 1 and every % self.sync_interval:
            raise InvalidConfiguration(
                "checkpoint.every",
                every,
                f"replicas are equal after every {self.sync_interval}th step, and one copy is kept.",
                f"Use a multiple of {self.sync_interval}.",
            )

    def _shards_are_not_empty(self) -> None:
        # FBGEMM's CPU kernels read past the end of a shard with no rows.
        ranks = self.layout.ranks()
        for table in self.workload.tables:
            sharding = self.layout.sharding_of(table.name)
            split = {
                "row_wise": ranks.group_size,
                "table_row_wise": ranks.group_ranks_per_host,
                "grid": ranks.group_ranks_per_host,
            }.get(sharding, 1)
            if not leaves_none_empty(table.rows, split):
                raise InvalidConfiguration(
                    f"tables.{table.name}.rows",
                    table.rows,
                    f"{sharding} over {split} ranks leaves a rank without rows.",
                    "Shard this table table_wise, or use more replica groups.",
                )

    @property
    def columns_matter(self) -> bool:
        """Whether the number of column shards is part of the optimizer."""
        return KINDS[self.optimizer.name].whole_rows

    @property
    def column_shards(self) -> dict[str, int]:
        """Into how many column shards each table is cut by hand: 1 where no column is, or it is planned."""
        ranks = self.layout.ranks()
        cuts = {"column_wise": ranks.column_shards, "grid": ranks.grid_columns}
        return {
            t.name: cuts[kind](t.dim) if (kind := self.layout.sharding_of(t.name)) in cuts else 1
            for t in self.workload.tables
        }

    @property
    def global_batch(self) -> int:
        """G, the samples of one step over all ranks."""
        batch = self.workload.batch
        return batch.global_size if self.scaling == "strong" else batch.per_rank * self.layout.world_size


def validated(model: type[Model], content: Any, where: str = "") -> Model:
    """Builds a spec from plain data.

    Raises:
        ConfigError: naming the first wrong field (after the prefix ``where``), its value and a remedy.
    """
    with config_errors(where):
        return model.model_validate(content)


@contextmanager
def config_errors(where: str = "") -> Iterator[None]:
    """Turns what specs raise when they are built into a ConfigError."""
    try:
        yield
    except InvalidConfiguration as error:
        raise ConfigError.from_invalid(error) from error
    except ValidationError as error:
        first, meant = _to_report(error.errors())
        inner = first.get("ctx", {}).get("error")
        if isinstance(inner, InvalidConfiguration):
            raise ConfigError.from_invalid(inner) from error
        field = ".".join(str(part) for part in first["loc"]) or error.title
        remedy = meant + {
            "extra_forbidden": "Remove it, or check its spelling.",
            "missing": "Add it.",
        }.get(first["type"], "Change it to a value that fits.")
        value = None if first["type"] == "missing" else first["input"]
        raise ConfigError(f"{where}{field}", value, first["msg"] + ".", remedy) from error


def _to_report(errors: Sequence[ErrorDetails]) -> tuple[ErrorDetails, str]:
    """The one of pydantic's errors that is told, and which word the user probably meant, as a remedy."""
    for missing in errors:
        if missing["type"] == "missing":  # perhaps it is there, misspelt, which is another error further down
            *parent, wanted = missing["loc"]
            beside = [e for e in errors if e["type"] == "extra_forbidden" and [*e["loc"][:-1]] == parent]
            for extra in beside:
                if meant := did_you_mean(str(extra["loc"][-1]), [str(wanted)]):
                    return extra, meant
    first = errors[0]
    choices = re.findall(r"'([^']*)'", first.get("ctx", {}).get("expected", ""))
    wrong_choice = first["type"] == "literal_error" and isinstance(first["input"], str)
    return first, did_you_mean(first["input"], choices) if wrong_choice else ""
