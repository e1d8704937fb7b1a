"""What looking costs: a profiled step over a plain one. The components come from profiled steps."""

from .support.benchmark import Benchmark as _Benchmark
from .support.benchmark import for_each_workload, metric


class _Looking(_Benchmark):
    track_profiling_cost = metric("profiling_cost", "profiled step over plain step")


globals().update(for_each_workload(_Looking))
