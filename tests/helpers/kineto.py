"""Kineto traces written by hand: one line an event, in microseconds from the trace's base time."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BASE_NS = 1_700_000_000_000_000_000
MAIN, AUTOGRAD, GLOO = 1, 2, 3
COMPUTE_STREAM, NCCL_STREAM = 7, 20


class Kineto:
    """A trace of one rank that grows event by event; ``write`` makes the file."""

    def __init__(self, rank: int | None = 0, world_size: int = 2, host: str = "node0") -> None:
        self.content: dict[str, Any] = {
            "schemaVersion": 1,
            "baseTimeNanoseconds": BASE_NS,
            "host_name": host,
            "traceEvents": [],
        }
        if rank is not None:
            self.content["distributedInfo"] = {
                "backend": "nccl",
                "rank": rank,
                "world_size": world_size,
                "pg_config": [{"pg_name": "0", "pg_size": world_size, "ranks": list(range(world_size))}],
            }

    def event(
        self, category: str, name: str, start: float, end: float, thread: int = MAIN, **arguments: Any
    ) -> None:
        self.content["traceEvents"].append(
            {"ph": "X", "cat": category, "name": name, "pid": 100, "tid": thread, "ts": start}
            | {"dur": end - start, "args": arguments}
        )

    def step(self, number: int, start: float, end: float) -> None:
        self.event("user_annotation", f"ProfilerStep#{number}", start, end)

    def range(self, name: str, start: float, end: float, thread: int = MAIN) -> None:
        self.event("user_annotation", name, start, end, thread)

    def operator(self, name: str, start: float, end: float, thread: int = MAIN, **arguments: Any) -> None:
        self.event("cpu_op", name, start, end, thread, **arguments)

    def kernel(
        self,
        name: str,
        start: float,
        end: float,
        correlation: int,
        launched: float | None,
        thread: int = MAIN,
        stream: int = COMPUTE_STREAM,
    ) -> None:
        """A kernel and the call that launches it, 2 microseconds long; no such call where it is None."""
        self.content["traceEvents"].append(
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start}
            | {"dur": end - start, "args": {"correlation": correlation, "stream": stream}}
        )
        if launched is not None:
            self.event(
                "cuda_runtime", "cudaLaunchKernel", launched, launched + 2, thread, correlation=correlation
            )

    def all_to_all(
        self, start: float, end: float, sent: Sequence[int], thread: int = MAIN, element: str = "float"
    ) -> None:
        """The operator of an all-to-all of a tensor of one dimension, split over the ranks."""
        total = sum(sent)
        self.operator(
            "c10d::alltoall_base_", start, end, thread,
            **{
                "Input Dims": [[total], [total], [], [], [], [], []],
                "Input type": [element, element, "", "ScalarList", "ScalarList", "Scalar", "Scalar"],
                "Concrete Inputs": ["", "", "", "[]", json.dumps(list(sent)), "True", "-1"],
            },
        )  # fmt: skip

    def all_reduce(self, start: float, end: float, elements: int, thread: int = MAIN) -> None:
        """The operator of an all-reduce: a list of tensors, whose element type the profiler leaves out."""
        self.operator(
            "c10d::allreduce_", start, end, thread,
            **{
                "Input Dims": [[[elements]], [], [], [], [], []],
                "Input type": ["TensorList", "", "", "", "Scalar", "Scalar"],
                "Concrete Inputs": ["", "", "", "", "True", "-1"],
            },
        )  # fmt: skip

    def work(self, kind: str, start: float, end: float, elements: int, element: str = "float") -> None:
        """What gloo's thread does for a collective."""
        self.event(
            "user_annotation", f"gloo:{kind}", start, end, GLOO,
            **{"Input Dims": [[elements]], "Input type": [element]},
        )  # fmt: skip

    def write(self, path: Path) -> Path:
        data = json.dumps(self.content).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path
