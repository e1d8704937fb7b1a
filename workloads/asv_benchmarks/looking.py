"""What looking costs: a profiled step over a plain one. The components come from profiled steps."""

from .support.benchmark import Benchmark, for_each_workload, metric


class Looking(Benchmark):
    """The profiler's cost."""

    track_profiling_cost = metric("profiling_cost", "profiled step over plain step")


globals().update(for_each_workload(Looking))
