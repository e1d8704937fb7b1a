"""What the rank that holds most holds, by category."""

from suite.metrics import METRICS

from .support.benchmark import Benchmark as _Benchmark
from .support.benchmark import for_each_workload, metric

_FAMILY = "memory."


class _Memory(_Benchmark):
    axis = ("category", tuple(name.removeprefix(_FAMILY) for name in METRICS if name.startswith(_FAMILY)))
    track_bytes = metric("memory.{}")


globals().update(for_each_workload(_Memory))
