"""What ``--json`` says of one run. Figures are computed from the record here, not stored in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suite.cli.failures import located, relative
from suite.components import COMPONENTS, ROLLUPS
from suite.memory_categories import CATEGORIES, TOTALS
from suite.metrics import METRICS
from suite.metrics.components import FIGURES, fused_split, slowest_rank
from suite.record import LaunchRecord, RunRecord
from suite.session import Outcome
from suite.spec import RunSpec
from suite.statistics import Interval, median_interval
from suite.store import RECORD

QUALITY = ("auc", "normalized_entropy", "log_loss", "calibration_error")


def summary(record: RunRecord | None, metric: str) -> Interval | None:
    """A metric's median over launches with its interval; None where no launch measured it."""
    if record is None or metric not in METRICS:
        return None
    return median_interval(METRICS[metric].values(record))


def run_body(run: RunSpec, record: RunRecord | None, path: Path | None) -> dict[str, Any]:
    """The document of one run, without what all documents share. Absent figures are null."""
    finished = [x for x in record.launches if x.status == "complete"] if record is not None else []

    def figure(metric: str) -> dict[str, Any] | None:
        found = summary(record, metric)
        return None if found is None else found.model_dump()

    def median(metric: str) -> float | None:
        found = summary(record, metric)
        return None if found is None else found.median

    def count(metric: str) -> float | None:
        """A whole number stays one; a mean over steps with and without a sync need not be."""
        found = median(metric)
        return int(found) if found is not None and found.is_integer() else found

    memory = {category: median(f"memory.{category}") for category in (*CATEGORIES, *TOTALS)}
    return {
        "record": None if path is None else relative(path / RECORD),
        "run_id": None if record is None else record.run_id,
        "status": "failed" if record is None else record.status,
        "workload": run.workload.name,
        "spec_hash": run.workload.spec_hash,
        "implementation": run.implementation,
        "world_size": run.layout.world_size,
        "replica_groups": run.layout.replica_groups,
        "placement": run.layout.placement,
        "exchange_dtype": run.exchange_dtype,
        "pipeline": run.pipeline,
        "sync": run.sync,
        "sync_interval": run.sync_interval,
        "sync_optimizer_state": run.sync_optimizer_state,
        "scaling": run.scaling,
        "sharding": [] if record is None else [t.model_dump(mode="json") for t in record.sharding],
        "global_batch": run.global_batch,
        "provenance": None if record is None else record.provenance,
        "launches": len(finished),
        "samples_per_s": figure("samples_per_s"),
        "step_ms": figure("step_ms"),
        "components": {name: {of: count(f"components.{name}.{of}") for of in FIGURES} for name in COMPONENTS},
        "rollups": {name: median(f"rollups.{name}") for name in ROLLUPS},
        "lookup_backward_split": _fused_split(run, finished),
        "profiling_cost": median("profiling_cost"),
        "memory": {k: None if v is None else round(v) for k, v in memory.items()},
        "collectives": _collectives(finished, run.sync_interval),
        "bytes": count("bytes"),
        "wire_bytes": count("wire_bytes"),
        "calls": count("calls"),
        "quality": {name: median(name) for name in QUALITY},
        "trace": _trace(finished, path),
        "error": None if record is None else located(record.error, path),
    }


def _fused_split(run: RunSpec, finished: list[LaunchRecord]) -> dict[str, Any] | None:
    """On the slowest rank of the first launch."""
    rank = slowest_rank(run, finished[0]) if finished else None
    found = None if rank is None or rank.profile is None else fused_split(rank.profile)
    return None if found is None else {"estimate": True, **vars(found)}


def _trace(finished: list[LaunchRecord], path: Path | None) -> str | None:
    """The folder of the traces that were kept."""
    kept = [r.profile.trace for x in finished for r in x.ranks if r.profile is not None and r.profile.trace]
    return relative(path / "trace") if kept and path is not None else None


def outcome_body(outcome: Outcome) -> dict[str, Any]:
    """The document of one configuration of a sweep, with its own flags."""
    body = run_body(outcome.run, outcome.record, outcome.path)
    flags = [] if outcome.record is None else list(outcome.record.environment.flags)
    return body | {
        "error": located(outcome.error, outcome.path),
        "environment": {"flags": flags},
        "launches_kept": outcome.kept,
    }


def _collectives(finished: list[LaunchRecord], sync_interval: int) -> list[dict[str, Any]] | None:
    """What the rank that puts most on the wire sent in one step of the first launch.

    The step is the last counted one that ended with a replica sync.
    """
    if not finished:
        return None
    counted = [
        step
        for rank in finished[0].ranks
        for step in [x for x in rank.collectives if (x.step + 1) % sync_interval == 0][-1:]
    ]
    if not counted:
        return None
    busiest = max(counted, key=lambda step: sum(c.wire_bytes for c in step.collectives))
    return [collective.model_dump() for collective in busiest.collectives]
