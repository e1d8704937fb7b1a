"""Records made by hand, and a launcher that makes them, for tests that launch nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from suite.components import COMMUNICATION, COMPONENTS
from suite.errors import ConfigError, ErrorReport
from suite.implementation import Implementation
from suite.launchers.base import Progress
from suite.memory_categories import CATEGORIES
from suite.record import EnvironmentRecord, LaunchRecord, MemoryProfile, ProfileRecord, RunRecord
from suite.spec import RunSpec, WorkloadSpec

STACK = {"torch": "2.13.0+cpu", "torchrec": "1.8.0", "fbgemm-gpu-cpu": "1.8.0"}


def tiny() -> WorkloadSpec:
    """A workload on the toy data: two tables, global batch 8."""
    return WorkloadSpec.model_validate(
        {
            "name": "tiny",
            "description": "Two small tables.",
            "model": {"dense_features": 1, "bottom_mlp": [4], "over_mlp": [4, 1]},
            "tables": [
                {"name": "people", "rows": 10, "dim": 4, "features": ["user"]},
                {"name": "products", "rows": 3, "dim": 4, "features": ["item"]},
            ],
            "data": {"source": "tests.helpers.toy_data:ToySource"},
            "batch": {"global_size": 8, "per_rank": 4},
            "defaults": {"steps": 6, "warmup_steps": 2},
        }
    )


def other() -> WorkloadSpec:
    """``tiny`` with another batch, hence another hash."""
    batch = tiny().batch.model_copy(update={"global_size": 16})
    return tiny().model_copy(update={"name": "other", "batch": batch})


def make_run(**changes: Any) -> RunSpec:
    """A run of ``tiny`` on two ranks, torch-free."""
    return RunSpec.model_validate(
        {
            "workload": tiny(),
            "implementation": "tests.helpers.records:Anything",
            "layout": {"world_size": 2},
            "steps": 6,
            "warmup_steps": 2,
        }
        | changes
    )


def make_launch(
    index: int = 0,
    step_ms: Sequence[float] = (10.0, 10.0),
    wire_bytes: int = 100,
    process: int = 500,
    auc: float | None = 0.75,
    fingerprint: str = "toy",
    started: str | None = None,
    threads: int = 1,
) -> LaunchRecord:
    """A finished launch; ``step_ms`` has the median step time of each rank."""
    ranks = [
        {
            "rank": rank,
            "host": "node0",
            "pid": 1000 + rank,
            "device": "cpu",
            "threads": threads,
            "loss": [0.7] * 6,
            "warmup_step_ms": [99.0, 98.0],
            "step_ms": [median - 1, median, median, median + 50],
            "collectives": [
                {"step": 0, "collectives": [collective(9999, 9999)]},
                {
                    "step": 1,
                    "collectives": [collective(2 * wire_bytes, wire_bytes), collective(10, 5 * rank)],
                },
            ],
            "memory": {
                "embedding_weights": 64 + rank,
                "embedding_optimizer_state": 16,
                "dense_parameters": 8,
                "dense_optimizer_state": 0,
                "process": process + rank,
                "process_source": "rss",
            },
        }
        for rank, median in enumerate(step_ms)
    ]
    quality = {
        "split": "test",
        "samples": 25,
        "base_rate": 0.5,
        "auc": auc,
        "log_loss": 0.6,
        "normalized_entropy": 0.9,
        "calibration": 1.0,
    }
    return LaunchRecord.model_validate(
        {
            "index": index,
            "started": started or f"2026-01-01T00:00:{index:02d}+00:00",
            "duration_s": 1.0,
            "status": "complete",
            "ranks": ranks,
            "quality": quality,
            "data": {"fingerprint": fingerprint},
        }
    )


def make_profile(step_ms: Sequence[float], trace: str | None = None) -> ProfileRecord:
    """Profiled steps of which each component but the replica sync, and ``other``, take a tenth, exposed."""
    steps = [
        {
            "step_ms": step,
            "components": {
                name: {"busy_ms": 0.2 * step * share, "exposed_ms": 0.1 * step * share}
                | (
                    {"wait_ms": step * share * 2 / 35, "transfer_ms": step * share / 35}
                    | {"bytes": 100 * share, "wire_bytes": 50 * share, "calls": 3 * share}
                    if name in COMMUNICATION
                    else {}
                )
                for name in COMPONENTS
                for share in [0 if name == "replica_sync" else 1]
            },
        }
        for step in step_ms
    ]
    return ProfileRecord.model_validate(
        {
            "step_ms": step_ms,
            "steps": steps,
            "clock": "one_host",
            "trace": None if trace is None else {"path": trace, "steps": len(steps)},
        }
    )


def with_profiles(launch: LaunchRecord, profiles: Sequence[ProfileRecord]) -> LaunchRecord:
    """The launch with what each rank's profiler saw."""
    ranks = zip(launch.ranks, profiles, strict=True)
    return launch.model_copy(update={"ranks": tuple(r.model_copy(update={"profile": p}) for r, p in ranks)})


def with_memory(launch: LaunchRecord, activations: Sequence[int]) -> LaunchRecord:
    """The launch with a memory profile of each rank, whose peak holds so many bytes of activations."""
    ranks = []
    for rank, size in zip(launch.ranks, activations, strict=True):
        held = {c: getattr(rank.memory, c, 0) for c in CATEGORIES}
        peak = {**held, "activations": size}
        profile = {
            "at_peak": peak,
            "peak_component": "dense_backward",
            "largest": {**peak, "gradients": 7},
            "by_component": {"lookup": held, "dense_backward": peak},
            "steps": 1,
            "unseen_frees": 0,
        }
        memory = rank.memory.model_copy(update={"profile": MemoryProfile.model_validate(profile)})
        ranks.append(rank.model_copy(update={"memory": memory}))
    return launch.model_copy(update={"ranks": tuple(ranks)})


def collective(sent: int, wire: int) -> dict[str, Any]:
    return {"name": "all_to_all", "group": "sharding", "calls": 3, "bytes": sent, "wire_bytes": wire}


def failed_launch(index: int = 0) -> LaunchRecord:
    """A launch that rank 1 ended."""
    return LaunchRecord(
        index=index,
        started="2026-01-01T00:00:00+00:00",
        duration_s=1.0,
        status="failed",
        error=ErrorReport(
            kind="rank_raised",
            rank=1,
            message="ValueError: told to",
            remedy="Look at the log.",
            log=f"logs/launch{index}/rank1.log",
        ),
    )


def make_environment(**changes: Any) -> EnvironmentRecord:
    """A small idle machine."""
    return EnvironmentRecord.model_validate(
        {
            "created": "2026-01-01T00:00:00+00:00",
            "host": "node0",
            "platform": "Linux",
            "python": "3.11.7",
            "versions": STACK,
            "git_commit": "c0ffee",
            "git_dirty": False,
            "cpu_model": "A processor",
            "cores": 4,
            "memory_bytes": 2**34,
            "gpus": [],
            "network": {"interfaces": ["lo"]},
            "load_average": 0.0,
            "variables": {},
            "flags": [],
        }
        | changes
    )


def make_record(
    launches: Sequence[LaunchRecord] | None = None,
    run: RunSpec | None = None,
    environment: EnvironmentRecord | None = None,
    run_id: str = "20260101T000000Z-aaaaaa",
    **changes: Any,
) -> RunRecord:
    """A complete record, by default of one launch."""
    run = run or make_run()
    return RunRecord.model_validate(
        {
            "run_id": run_id,
            "created": "2026-01-01T00:00:00+00:00",
            "status": "complete",
            "spec_hash": run.workload.spec_hash,
            "run": run,
            "environment": environment or make_environment(),
            "launches": tuple([make_launch()] if launches is None else launches),
        }
        | changes
    )


class Anything(Implementation):
    """An implementation that accepts every run and builds no model."""


class OneGroup(Implementation):
    """An implementation that refuses replicas."""

    @classmethod
    def check(cls, run: RunSpec) -> None:
        if run.layout.replica_groups > 1:
            raise ConfigError("layout.replica_groups", run.layout.replica_groups, "one only.", "Use 1.")


# No launch here builds them, so they need no methods.
Anything.__abstractmethods__ = OneGroup.__abstractmethods__ = frozenset()


class FakeLauncher:
    """Makes a launch's record at once. ``launched`` holds what it was asked for; tests empty it.

    ``script`` decides what becomes of a launch; by default 2D is twice as fast as 1D.
    """

    launched: ClassVar[list[tuple[RunSpec, int]]] = []
    script: ClassVar[Callable[[RunSpec, int], LaunchRecord]]

    def launch(
        self, run: RunSpec, index: int, folder: Path, on_progress: Callable[[Progress], None]
    ) -> LaunchRecord:
        self.launched.append((run, index))
        log = folder / "logs" / f"launch{index}" / "rank0.log"
        log.parent.mkdir(parents=True)
        log.write_text("hello\n")
        on_progress(Progress(index, "start", 0, 0))
        for step in range(1, run.steps + 1):
            on_progress(Progress(index, "train", step, run.steps))
        return type(self).script(run, index)


def succeed(run: RunSpec, index: int) -> LaunchRecord:
    """Steps of 10 ms in 1D and 5 ms in 2D, a tenth slower with each launch."""
    step = 10 / run.layout.replica_groups * (1 + index / 10)
    return make_launch(index, [step] * run.layout.world_size)
