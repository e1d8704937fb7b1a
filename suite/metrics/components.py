"""Where the step's time goes, on the slowest rank: every figure of a launch is of the same rank.

Times come from profiled steps, which take a little longer than plain ones; ``profiling_cost`` says how much.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from suite.components import COMMUNICATION, COMPONENTS, ROLLUPS
from suite.metrics.base import Metric
from suite.metrics.speed import typical_step_ms
from suite.record import LaunchRecord, ProfiledStep, ProfileRecord, RankRecord
from suite.spec import RunSpec

#: Parts of a step differ more than the whole from launch to launch: they take turns at being late.
MARGIN = 0.10
TIMES = ("busy_ms", "exposed_ms")
COMMUNICATION_TIMES = ("wait_ms", "transfer_ms")
SENT = ("bytes", "wire_bytes", "calls")
#: All that a component has.
FIGURES = (*TIMES, *COMMUNICATION_TIMES, *SENT)


def slowest_rank(run: RunSpec, launch: LaunchRecord) -> RankRecord | None:
    """Of the ranks that were profiled the one whose plain steps are the longest."""
    profiled = [rank for rank in launch.ranks if rank.profile is not None and rank.profile.steps]
    return max(profiled, key=lambda rank: typical_step_ms(rank.step_ms, run.sync_interval), default=None)


def component_figure(
    steps: Sequence[ProfiledStep], component: str, figure: str, sync_interval: int = 1
) -> float | None:
    """A figure of one component over a rank's profiled steps; None where a step does not have it.

    Times are medians over steps. Where replicas are averaged every k steps they are taken as step times are
    (``typical_step_ms``), and so is what is sent, as a mean.
    """
    found = [getattr(step.components[component], figure) for step in steps]
    values = [value for value in found if value is not None]
    if len(values) < len(found) or not values:
        return None
    if figure in SENT:
        return statistics.mean(values)
    return typical_step_ms(values, sync_interval)


def _of_slowest(component: str, figure: str) -> Callable[[RunSpec, LaunchRecord], float | None]:
    def of_launch(run: RunSpec, launch: LaunchRecord) -> float | None:
        rank = slowest_rank(run, launch)
        if rank is None or rank.profile is None:
            return None
        return component_figure(rank.profile.steps, component, figure, run.sync_interval)

    return of_launch


def _rollup(name: str) -> Callable[[RunSpec, LaunchRecord], float | None]:
    parts = [_of_slowest(component, "exposed_ms") for component in ROLLUPS[name]]

    def of_launch(run: RunSpec, launch: LaunchRecord) -> float | None:
        found = [part(run, launch) for part in parts]
        return sum(x for x in found if x is not None) if None not in found else None

    return of_launch


@dataclass(frozen=True)
class FusedSplit:
    """An estimate of how FBGEMM's fused backward divides into backward and optimizer, in milliseconds.

    The optimizer's part is a difference of two measurements, steps with the run's optimizer and steps with
    plain SGD on the same batches: what the optimizer costs beyond SGD's update. ``low`` and ``high`` hold the
    middle half of the differences of every two such steps; an estimate smaller than its spread says nothing.
    """

    backward_ms: float
    optimizer_ms: float
    low: float
    high: float


def fused_split(profile: ProfileRecord) -> FusedSplit | None:
    """The split on one rank; None where it was not measured."""
    fused = [step.components["lookup_backward_optimizer"].busy_ms for step in profile.steps]
    if not fused or not profile.plain_sgd_ms:
        return None
    differences = [a - b for a in fused for b in profile.plain_sgd_ms]
    quarters = statistics.quantiles(differences, n=4) if len(differences) > 1 else [differences[0]] * 3
    low, middle, high = quarters
    return FusedSplit(statistics.median(fused) - middle, middle, low, high)


def profiling_cost(run: RunSpec, launch: LaunchRecord) -> float | None:
    """A profiled step over a plain one, on the slowest rank: what looking costs."""
    rank = slowest_rank(run, launch)
    if rank is None or rank.profile is None:
        return None
    return typical_step_ms(rank.profile.step_ms, run.sync_interval) / typical_step_ms(
        rank.step_ms, run.sync_interval
    )


METRICS = (
    *(
        Metric(
            f"components.{c}.{f}",
            "ms",
            "lower",
            False,
            _of_slowest(c, f),
            margin=MARGIN,
            role="detail" if f == "exposed_ms" else "figure",
        )
        for c in COMPONENTS
        for f in (*TIMES, *(COMMUNICATION_TIMES if c in COMMUNICATION else ()))
    ),
    *(
        Metric(f"components.{c}.{f}", unit, "lower", True, _of_slowest(c, f), role="figure")
        for c in COMMUNICATION
        for f, unit in zip(SENT, ("B/step", "B/step", "calls/step"), strict=True)
    ),
    *(
        Metric(f"rollups.{name}", "ms", "lower", False, _rollup(name), margin=MARGIN, role="figure")
        for name in ROLLUPS
    ),
    Metric("profiling_cost", "", "lower", False, profiling_cost, margin=MARGIN, role="figure"),
)
