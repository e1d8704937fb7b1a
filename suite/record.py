"""The run record: raw samples and everything needed to read them later. Versioned and validated.

Metrics are not in it: they are computed from it (``suite.metrics``). One launch is one sample; within
a launch each rank reports its own raw lists, step by step, nothing dropped.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from suite.errors import ErrorReport
from suite.memory_categories import Category
from suite.spec import Frozen, RunSpec, ShardingType

SCHEMA_VERSION: Final = 1

Provenance = Literal["measured", "emulated", "modelled", "published"]
Count = Annotated[int, Field(ge=0)]
Milliseconds = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class CollectiveCount(Frozen):
    """One kind of collective in one process group in one counted step, on one rank.

    ``bytes`` is the payload this rank sends; ``wire_bytes`` leaves out what it sends to itself.
    How both are derived for each collective is documented in ``suite/collectives.py``.
    """

    name: str
    group: Literal["world", "sharding", "replica"]
    calls: Count
    bytes: Count
    wire_bytes: Count


class StepCollectives(Frozen):
    """The collectives of one counted (warm-up) step."""

    step: Count
    collectives: tuple[CollectiveCount, ...]


class MemoryProfile(Frozen):
    """What a rank's allocator had handed out in steps of a pass of its own, after the timed ones. In bytes.

    Attributes:
        at_peak: by category, at the moment at which most was allocated; they add up to that peak.
        peak_component: the component of that moment.
        largest: each category's own largest, whenever that was.
        by_component: the same as ``at_peak``, at the largest moment of each component.
        steps: looked at.
        unseen_frees: blocks of a step whose end was not seen, and was taken to be their component's.
    """

    at_peak: dict[Category, Count]
    peak_component: str
    largest: dict[Category, Count]
    by_component: dict[str, dict[Category, Count]]
    steps: Count
    unseen_frees: Count

    @property
    def allocated_peak(self) -> int:
        """The most that was allocated at a moment."""
        return sum(self.at_peak.values())


class MemoryRecord(Frozen):
    """Bytes on this rank.

    Attributes:
        embedding_weights, embedding_optimizer_state, dense_parameters, dense_optimizer_state: what the
            implementation says that it holds.
        process: the peak over the timed steps, on the host or, where training is on a GPU, of the GPU.
        process_source: who says so, and of what.
        host_process: the peak resident set, where ``process`` is of a GPU.
        allocated_peak, reserved_peak: of a GPU's allocator, over the timed steps.
        profile: what the memory was for, where it was profiled.
    """

    embedding_weights: Count
    embedding_optimizer_state: Count
    dense_parameters: Count
    dense_optimizer_state: Count
    process: Count
    process_source: str
    host_process: Count | None = None
    allocated_peak: Count | None = None
    reserved_peak: Count | None = None
    profile: MemoryProfile | None = None


class ComponentSample(Frozen):
    """One component of one profiled step on one rank. Times in milliseconds.

    Attributes:
        busy_ms: it was at work, beside others or not.
        exposed_ms: the step had nothing else to do. The exposed times of all components and ``other`` add
            up to the step.
        wait_ms: of a communication: exposed, and the last rank of its group had not arrived yet.
        transfer_ms: of a communication: exposed, and all ranks had arrived.
        bytes, wire_bytes, calls: what its collectives sent, as ``CollectiveCount`` has it.

    What cannot be told is None.
    """

    busy_ms: float
    exposed_ms: float
    wait_ms: float | None = None
    transfer_ms: float | None = None
    bytes: int | None = None
    wire_bytes: int | None = None
    calls: int | None = None


class ProfiledStep(Frozen):
    """One step under the profiler: its length in the trace, and its components (``other`` included)."""

    step_ms: float
    components: dict[str, ComponentSample]


class TraceFile(Frozen):
    """A trace that was kept: its path relative to the run's folder, and how many steps are in it."""

    path: str
    steps: int
    steps_left_out: int = 0


class ProfileRecord(Frozen):
    """What one rank's profiler saw, in steps after the evaluation that no other figure contains.

    Attributes:
        step_ms: the profiled steps by the timed loop's clock, to be compared with the plain ones.
        steps: the same steps taken apart.
        clock: how ranks' clocks are compared for ``wait_ms``: ``one_host``, or ``aligned_steps`` where the
            ranks are on several hosts.
        trace: the file, where it was kept.
        plain_sgd_ms: busy milliseconds of ``lookup_backward_optimizer`` in further profiled steps, on the
            same batches, with plain SGD as the tables' optimizer; none where that was not measured.
    """

    step_ms: tuple[float, ...]
    steps: tuple[ProfiledStep, ...]
    clock: Literal["one_host", "aligned_steps"]
    trace: TraceFile | None = None
    plain_sgd_ms: tuple[float, ...] = ()


class RankRecord(Frozen):
    """What one rank measured in one launch."""

    rank: Count
    host: str
    pid: int
    device: str
    threads: int
    #: Local loss (sum over local samples times T / G) of every step, warm-up included. The mean over
    #: the ranks is the mean loss of the global batch.
    loss: tuple[float, ...]
    warmup_step_ms: tuple[Milliseconds, ...]
    step_ms: Annotated[tuple[Milliseconds, ...], Field(min_length=1)]
    collectives: tuple[StepCollectives, ...]
    memory: MemoryRecord
    profile: ProfileRecord | None = None


class TableSharding(Frozen):
    """How one table was sharded inside a sharding group: by hand as told, or as TorchRec's planner chose."""

    table: str
    sharding: ShardingType
    #: Positions in the group, [0, N), of its shards, column shard by column shard.
    ranks: tuple[int, ...]
    #: Row-wise optimizers keep a moment for each.
    column_shards: int


class QualityRecord(Frozen):
    """Quality on the evaluation split after the last step, on the scores gathered from all ranks."""

    split: str
    samples: Count
    base_rate: Share
    auc: Share | None
    #: 95 % by DeLong: what another sample of as many would bring. Not what another training would.
    auc_low: Share | None = None
    auc_high: Share | None = None
    log_loss: float
    normalized_entropy: float | None
    calibration: float | None


class LaunchRecord(Frozen):
    """One launch: T fresh processes. Failed launches keep their error and no ranks."""

    index: int
    started: str
    duration_s: float
    status: Literal["complete", "failed"]
    ranks: tuple[RankRecord, ...] = ()
    quality: QualityRecord | None = None
    sharding: tuple[TableSharding, ...] = ()
    #: What the data source says of itself (``DataSource.describe``).
    data: dict[str, Any] = Field(default_factory=dict)
    error: ErrorReport | None = None

    @model_validator(mode="after")
    def _ranks_are_all_there(self) -> LaunchRecord:
        numbers = [rank.rank for rank in self.ranks]
        if self.status == "complete" and (not numbers or numbers != list(range(len(numbers)))):
            raise ValueError(f"a complete launch has ranks from 0 on, and this one has {numbers}")
        return self


class ClusterRecord(Frozen):
    """The cluster that ranks were started on. Which rank was on which host is in the ranks' records.

    Attributes:
        launcher: that started them.
        job: the workload manager's name of the job.
        partition: it ran in.
        nodes: of the job, as the workload manager writes them.
        emulated: what is emulated, in words, where the cluster is one in a box (``ci/cluster-in-a-box``).
    """

    launcher: str
    job: str | None = None
    partition: str | None = None
    nodes: str | None = None
    emulated: str | None = None


class EnvironmentRecord(Frozen):
    """Where it ran. ``flags`` are words such as ``oversubscribed``, ``busy``, ``dirty_tree``."""

    created: str
    host: str
    platform: str
    python: str
    versions: dict[str, str]
    git_commit: str | None
    git_dirty: bool | None
    cpu_model: str
    cores: int
    memory_bytes: int
    gpus: tuple[str, ...]
    network: dict[str, Any]
    load_average: float
    variables: dict[str, str]
    flags: tuple[str, ...]
    #: Digests of the user's own modules that the run names (``suite.code_prints``). Older records have none.
    code: dict[str, str] = Field(default_factory=dict)
    #: None where all ranks were started on this host.
    cluster: ClusterRecord | None = None


class RunRecord(Frozen):
    """One configuration's record; ``record.json`` in ``runs/<workload>/<spec hash>/<time>-<id>/``."""

    schema_version: Literal[1] = SCHEMA_VERSION
    run_id: str
    created: str
    status: Literal["complete", "partial", "failed"]
    provenance: Provenance = "measured"
    spec_hash: str
    run: RunSpec
    environment: EnvironmentRecord
    launches: tuple[LaunchRecord, ...]
    error: ErrorReport | None = None

    @property
    def sharding(self) -> tuple[TableSharding, ...]:
        """How the tables were sharded, as the first launch that says so has it."""
        return next((x.sharding for x in self.launches if x.sharding), ())

    @property
    def column_shards(self) -> dict[str, int]:
        """Into how many column shards each table was cut, or by its run would have been."""
        return {t.table: t.column_shards for t in self.sharding} or self.run.column_shards
