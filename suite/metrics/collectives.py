"""What a step sends, on the rank that sends most: the mean over the last counted steps, sync to sync."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from suite.metrics.base import Metric
from suite.record import LaunchRecord
from suite.spec import RunSpec


def _total(field: str) -> Callable[[RunSpec, LaunchRecord], float | None]:
    of = attrgetter(field)

    def largest_rank(run: RunSpec, launch: LaunchRecord) -> float | None:
        counted = [rank.collectives[-run.sync_interval :] for rank in launch.ranks if rank.collectives]
        sent = ([sum(of(c) for c in step.collectives) for step in steps] for steps in counted)
        return max((sum(steps) / len(steps) for steps in sent), default=None)

    return largest_rank


METRICS = (
    Metric("bytes", "B/step", "lower", True, _total("bytes")),
    Metric("wire_bytes", "B/step", "lower", True, _total("wire_bytes")),
    Metric("calls", "calls/step", "lower", True, _total("calls")),
)
