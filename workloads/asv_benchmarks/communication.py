"""What the rank that sends most sends in a step, replica sync included."""

from .support.benchmark import Benchmark, for_each_workload, metric


class Communication(Benchmark):
    """Bytes and calls of one step."""

    track_bytes = metric("bytes", "payload sent in a step")
    track_wire_bytes = metric("wire_bytes", "of it to other ranks")
    track_calls = metric("calls", "collectives in a step")


globals().update(for_each_workload(Communication))
