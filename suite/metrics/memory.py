"""Bytes a rank holds, on the rank that holds most."""

from __future__ import annotations

from collections.abc import Callable

from suite.memory_categories import LASTING, PASSING, TOTALS
from suite.metrics.base import Metric
from suite.record import LaunchRecord, MemoryRecord
from suite.spec import RunSpec

#: Allocators give the same program a few per cent more or less.
MARGIN = 0.05


def bytes_of(memory: MemoryRecord, name: str) -> int | None:
    """A category's bytes, or a total's, on one rank; None where they were not measured.

    What lasts is what the implementation holds; what passes is as it was at the peak. A CPU's allocator
    counts only under the profiler, so there its peak is that of the pass of its own.
    """
    if name in PASSING:
        return None if memory.profile is None else memory.profile.at_peak[name]
    counted: int | None = getattr(memory, name)
    if counted is None and name == "allocated_peak" and memory.profile is not None:
        return memory.profile.allocated_peak
    return counted


def _largest(name: str) -> Callable[[RunSpec, LaunchRecord], float | None]:
    def largest_rank(_run: RunSpec, launch: LaunchRecord) -> float | None:
        held = [bytes_of(rank.memory, name) for rank in launch.ranks]
        return max((value for value in held if value is not None), default=None)

    return largest_rank


METRICS = (
    *(Metric(f"memory.{c}", "B", "lower", True, _largest(c)) for c in LASTING),
    *(Metric(f"memory.{c}", "B", "lower", False, _largest(c), margin=MARGIN) for c in TOTALS),
    *(Metric(f"memory.{c}", "B", "lower", False, _largest(c), margin=MARGIN, role="detail") for c in PASSING),
)
