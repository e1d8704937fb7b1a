"""Where the step's time goes on the slowest rank, component by component."""

from suite.components import COMPONENTS

from .support.benchmark import Benchmark, for_each_workload, metric


class Components(Benchmark):
    """Times of one step; the exposed ones add up to it."""

    axis = ("component", COMPONENTS)
    track_exposed_ms = metric("components.{}.exposed_ms", "exposed: the step waited for it")
    track_busy_ms = metric("components.{}.busy_ms", "busy: it was at work")


globals().update(for_each_workload(Components))
