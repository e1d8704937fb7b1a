"""What is run, frozen and validated when built.

``WorkloadSpec`` says what is trained on what: model, tables, data, batch. Its hash names the series of
measurements it belongs to. ``RunSpec`` adds how: implementation, layout, optimizer, steps, launches.
Nothing here imports torch, so that bad input is refused in milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from reference_impl.errors import InvalidConfiguration
from reference_impl.layout import Placement, RankLayout
from suite.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=64)]
Reference = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
Positive = Annotated[int, Field(strict=True, ge=1)]
Scaling = Literal["strong", "weak"]
ShardingType = Literal["table_wise", "row_wise", "column_wise"]
SyncOptimizerState = Literal["immediate", "delayed"]
OptimizerName = Literal["sgd", "rowwise_adagrad", "momentum_scaled_rowwise_adagrad"]


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
    pooling: Literal["sum", "mean"] = "sum"
    dtype: Literal["fp32"] = "fp32"
    #: Ids that a feature holds per sample (what TorchRec's planner calls the pooling factor).
    pooling_factor: Annotated[float, Field(gt=0)] = 1.0

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


class ModelSpec(Frozen):
    """TorchRec's DLRM, or the user's own model.

    ``factory`` is ``module:function``; called with ``(workload, device)`` it returns an ``nn.Module``
    whose EmbeddingBagCollections hold exactly the workload's tables and whose ``forward(dense, sparse)``
    returns one logit a sample.
    """

    dense_features: Positive
    bottom_mlp: tuple[Positive, ...] = ()
    over_mlp: tuple[Positive, ...] = ()
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
    learning_rate: Annotated[float, Field(gt=0)] = 0.01


class OptimizerSpec(Frozen):
    """The optimizer of the embedding tables, fused into FBGEMM's backward, and the dense one.

    ``scale`` is the c of momentum-scaled row-wise AdaGrad; left out it is M, the number of replica groups.
    """

    name: OptimizerName = "rowwise_adagrad"
    learning_rate: Annotated[float, Field(gt=0)] = 0.04
    eps: Annotated[float, Field(gt=0)] = 1e-8
    scale: Annotated[float, Field(gt=0)] | None = None
    dense: DenseOptimizerSpec = DenseOptimizerSpec()

    @model_validator(mode="after")
    def _scale_needs_momentum_scaling(self) -> OptimizerSpec:
        if self.scale is not None and self.name != "momentum_scaled_rowwise_adagrad":
            raise InvalidConfiguration(
                "optimizer.scale",
                self.scale,
                f"{self.name} has no momentum scale.",
                "Leave it out, or choose momentum_scaled_rowwise_adagrad.",
            )
        return self


class TrainingDefaults(Frozen):
    """What a run of this workload uses where the user says nothing. Not part of the hash."""

    optimizer: OptimizerSpec = OptimizerSpec()
    sharding: ShardingType = "table_wise"
    #: Steps trained in all; the first ``warmup_steps`` of them never enter the step-time statistics.
    steps: Positive = 50
    warmup_steps: Positive = 5
    launches: Positive = 1


class WorkloadSpec(Frozen):
    """Model, tables, data and batch: everything that names a series of measurements."""

    name: Name
    description: str = ""
    model: ModelSpec
    tables: Annotated[tuple[TableSpec, ...], Field(min_length=1)]
    data: DataSpec
    batch: BatchSpec
    defaults: TrainingDefaults = TrainingDefaults()

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
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class LayoutSpec(Frozen):
    """T, M, placement, and how each table is sharded inside a group."""

    world_size: Annotated[int, Field(strict=True, ge=1, le=8192)] = 1
    replica_groups: Positive = 1
    placement: Placement = "interleaved"
    sharding: ShardingType = "table_wise"
    #: Tables that are sharded otherwise, by name.
    sharding_by_table: dict[str, ShardingType] = {}

    @model_validator(mode="after")
    def _groups_divide_ranks(self) -> LayoutSpec:
        self.ranks()
        return self

    def ranks(self) -> RankLayout:
        """The integers of this layout."""
        return RankLayout(self.world_size, self.replica_groups, self.placement)

    def sharding_of(self, table: str) -> ShardingType:
        """The sharding type of one table."""
        return self.sharding_by_table.get(table, self.sharding)


class RunSpec(Frozen):
    """One configuration, complete: the same RunSpec on the same stack trains the same model."""

    workload: WorkloadSpec
    implementation: str = "reference_2d"
    layout: LayoutSpec = LayoutSpec()
    optimizer: OptimizerSpec = OptimizerSpec()
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
    launcher: Literal["local"] = "local"
    #: Steps taken under the profiler after the evaluation; 0: none. They are in no other figure.
    profile_steps: Annotated[int, Field(strict=True, ge=0, le=1000)] = 0
    #: Whose traces are kept: ``all``, ``slowest`` (the slowest rank's), or ranks like ``0,3``.
    trace: Annotated[str, Field(pattern=r"^(all|slowest|\d+(,\d+)*)$")] | None = None
    #: Seconds without progress after which a launch is ended. Also the process groups' timeout.
    stall_timeout_s: Annotated[float, Field(ge=2, le=3600)] = 60.0

    @model_validator(mode="after")
    def _consistent(self) -> RunSpec:
        if self.warmup_steps >= self.steps:
            raise InvalidConfiguration(
                "steps",
                self.steps,
                f"no step is left after {self.warmup_steps} warm-up steps.",
                "Use more steps.",
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
        self._trace_can_be_taken()
        self._syncs_can_be_measured()
        self._shards_are_not_empty()
        return self

    def _trace_can_be_taken(self) -> None:
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
        if self.sync_optimizer_state == "delayed" and self.optimizer.name == "sgd":
            raise InvalidConfiguration(
                "sync_optimizer_state",
                "delayed",
                "sgd keeps no optimizer state.",
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

    def _shards_are_not_empty(self) -> None:
        # FBGEMM's CPU kernels read past the end of a shard with no rows.
        n = self.layout.ranks().group_size
        for table in self.workload.tables:
            if (
                self.layout.sharding_of(table.name) == "row_wise"
                and math.ceil(table.rows / n) * (n - 1) >= table.rows
            ):
                raise InvalidConfiguration(
                    f"tables.{table.name}.rows",
                    table.rows,
                    f"row-wise over {n} ranks leaves a rank without rows.",
                    "Shard this table table_wise, or use more replica groups.",
                )

    @property
    def column_shards(self) -> dict[str, int]:
        """Into how many column shards each table is cut: 1 where it is not column-wise."""
        ranks = self.layout.ranks()
        return {
            t.name: ranks.column_shards(t.dim) if self.layout.sharding_of(t.name) == "column_wise" else 1
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
        first = error.errors()[0]
        inner = first.get("ctx", {}).get("error")
        if isinstance(inner, InvalidConfiguration):
            raise ConfigError.from_invalid(inner) from error
        field = ".".join(str(part) for part in first["loc"]) or error.title
        remedy = {
            "extra_forbidden": "Remove it, or check its spelling.",
            "missing": "Add it.",
        }.get(first["type"], "Change it to a value that fits.")
        value = None if first["type"] == "missing" else first["input"]
        raise ConfigError(f"{where}{field}", value, first["msg"] + ".", remedy) from error
