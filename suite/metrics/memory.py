"""Bytes a rank holds, on the rank that holds most."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from suite.metrics.base import Metric
from suite.record import LaunchRecord
from suite.spec import RunSpec

#: Allocators give the same program a few per cent more or less.
MARGIN = 0.05
PARAMETERS = (
    "embedding_weights",
    "embedding_optimizer_state",
    "dense_parameters",
    "dense_optimizer_state",
)
PEAKS = ("process", "allocated_peak", "reserved_peak")


def _largest(category: str) -> Callable[[RunSpec, LaunchRecord], float | None]:
    of = attrgetter(category)

    def largest_rank(_run: RunSpec, launch: LaunchRecord) -> float | None:
        held = [of(rank.memory) for rank in launch.ranks]
        return max((value for value in held if value is not None), default=None)

    return largest_rank


METRICS = (
    *(Metric(f"memory.{c}", "B", "lower", True, _largest(c)) for c in PARAMETERS),
    *(Metric(f"memory.{c}", "B", "lower", False, _largest(c), margin=MARGIN) for c in PEAKS),
)
