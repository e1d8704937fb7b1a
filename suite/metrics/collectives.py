"""What one step sends, counted in the last counted step, on the rank that sends most."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from suite.metrics.base import Metric
from suite.record import LaunchRecord
from suite.spec import RunSpec


def _total(field: str) -> Callable[[RunSpec, LaunchRecord], float | None]:
    of = attrgetter(field)

    def largest_rank(_run: RunSpec, launch: LaunchRecord) -> float | None:
        counted = [rank.collectives[-1].collectives for rank in launch.ranks if rank.collectives]
        return max((sum(of(c) for c in collectives) for collectives in counted), default=None)

    return largest_rank


METRICS = (
    Metric("bytes", "B/step", "lower", True, _total("bytes")),
    Metric("wire_bytes", "B/step", "lower", True, _total("wire_bytes")),
    Metric("calls", "calls/step", "lower", True, _total("calls")),
)
