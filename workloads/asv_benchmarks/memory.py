"""What the rank that holds most holds, by category."""

from suite.metrics import METRICS

from .support.benchmark import Benchmark, for_each_workload, metric

_FAMILY = "memory."


class Memory(Benchmark):
    """Bytes on one rank; n/a where a category is not measured."""

    axis = ("category", tuple(name.removeprefix(_FAMILY) for name in METRICS if name.startswith(_FAMILY)))
    track_bytes = metric("memory.{}")


globals().update(for_each_workload(Memory))
