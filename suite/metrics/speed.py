"""How fast a step is. A step is as slow as its slowest rank, since the others wait for it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from suite.metrics.base import Metric
from suite.record import LaunchRecord
from suite.spec import RunSpec

#: Launches of one configuration on the same machine differ by this much without a cause.
MARGIN = 0.05


def step_ms(run: RunSpec, launch: LaunchRecord) -> float | None:
    """The largest of the ranks' median step times in milliseconds, warm-up left out.

    Where replicas are averaged every k steps, the median of all steps would be that of a step without a
    sync. So steps are taken apart by their place in the interval, and the k medians averaged.
    """
    return max(
        (typical_step_ms(rank.step_ms, run.sync_interval) for rank in launch.ranks if rank.step_ms),
        default=None,
    )


def typical_step_ms(samples: Sequence[float], sync_interval: int) -> float:
    """One rank's median over steps: the mean of k medians, one for each place in the sync interval."""
    places = (samples[place::sync_interval] for place in range(sync_interval))
    return statistics.mean(statistics.median(place) for place in places if place)


def samples_per_s(run: RunSpec, launch: LaunchRecord) -> float | None:
    """Global batch G over the step time of the slowest rank."""
    slowest = step_ms(run, launch)
    return run.global_batch / slowest * 1000 if slowest else None


METRICS = (
    Metric("samples_per_s", "samples/s", "higher", False, samples_per_s, margin=MARGIN),
    Metric("step_ms", "ms", "lower", False, step_ms, margin=MARGIN),
)
