"""The run record: raw samples and everything needed to read them later. Versioned and validated.

Metrics are not in it: they are computed from it (``suite.metrics``). One launch is one sample; within
a launch each rank reports its own raw lists, step by step, nothing dropped.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from suite.errors import ErrorReport
from suite.spec import Frozen, RunSpec

SCHEMA_VERSION: Final = 1

Provenance = Literal["measured", "emulated", "modelled", "published"]


class CollectiveCount(Frozen):
    """One kind of collective in one process group in one counted step, on one rank.

    ``bytes`` is the payload this rank sends; ``wire_bytes`` leaves out what it sends to itself.
    How both are derived for each collective is documented in ``suite/collectives.py``.
    """

    name: str
    group: Literal["world", "sharding", "replica"]
    calls: int
    bytes: int
    wire_bytes: int


class StepCollectives(Frozen):
    """The collectives of one counted (warm-up) step."""

    step: int
    collectives: tuple[CollectiveCount, ...]


class MemoryRecord(Frozen):
    """Bytes on this rank. ``process`` is the peak over the timed steps; ``process_source`` says of what."""

    embedding_weights: int
    embedding_optimizer_state: int
    dense_parameters: int
    dense_optimizer_state: int
    process: int
    process_source: str
    allocated_peak: int | None = None
    reserved_peak: int | None = None


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

    rank: int
    host: str
    pid: int
    device: str
    threads: int
    #: Local loss (sum over local samples times T / G) of every step, warm-up included. The mean over
    #: the ranks is the mean loss of the global batch.
    loss: tuple[float, ...]
    warmup_step_ms: tuple[float, ...]
    step_ms: tuple[float, ...]
    collectives: tuple[StepCollectives, ...]
    memory: MemoryRecord
    profile: ProfileRecord | None = None


class QualityRecord(Frozen):
    """Quality on the evaluation split after the last step, on the scores gathered from all ranks."""

    split: str
    samples: int
    base_rate: float
    auc: float | None
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
    #: What the data source says of itself (``DataSource.describe``).
    data: dict[str, Any] = Field(default_factory=dict)
    error: ErrorReport | None = None


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
