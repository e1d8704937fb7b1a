"""How fast a step is. A step is as slow as its slowest rank, since the others wait for it."""

from __future__ import annotations

import statistics

from suite.metrics.base import Metric
from suite.record import LaunchRecord
from suite.spec import RunSpec

#: Launches of one configuration on the same machine differ by this much without a cause.
MARGIN = 0.05


def step_ms(launch: LaunchRecord) -> float | None:
    """The largest of the ranks' median step times in milliseconds, warm-up left out."""
    return max((statistics.median(rank.step_ms) for rank in launch.ranks if rank.step_ms), default=None)


def samples_per_s(run: RunSpec, launch: LaunchRecord) -> float | None:
    """Global batch G over the step time of the slowest rank."""
    slowest = step_ms(launch)
    return run.global_batch / slowest * 1000 if slowest else None


METRICS = (
    Metric("samples_per_s", "samples/s", "higher", False, samples_per_s, margin=MARGIN),
    Metric("step_ms", "ms", "lower", False, lambda _, launch: step_ms(launch), margin=MARGIN),
)
