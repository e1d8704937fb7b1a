"""Reading one rank's trace, and taking its steps apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from profiles.breakdown import break_down
from profiles.trace import read
from suite.implementations.ranges import TORCHREC_RANGES

STEPS, OPERATORS = 20, 1_000


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty steps of a thousand operators each, 4 MB of JSON."""

    def event(category: str, name: str, start: float, length: float) -> dict[str, object]:
        return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length}

    events = []
    names = [prefix for prefixes in TORCHREC_RANGES.values() for prefix in prefixes]
    for step in range(STEPS):
        start = step * 100_000.0
        events.append(event("user_annotation", f"ProfilerStep#{step}", start, 99_000))
        part = 99_000 / len(names)
        events += [event("user_annotation", n, start + i * part, 0.9 * part) for i, n in enumerate(names)]
        events += [event("cpu_op", "aten::addmm", start + 90 * i, 80) for i in range(OPERATORS)]
    path = tmp_path_factory.mktemp("trace") / "rank0.1.pt.trace.json"
    path.write_text(json.dumps({"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}))
    return path


def test_reading(trace: Path, benchmark: BenchmarkFixture) -> None:
    """From the file."""
    assert len(benchmark(read, trace, TORCHREC_RANGES).steps) == STEPS


def test_breaking_down(trace: Path, benchmark: BenchmarkFixture) -> None:
    """From what was read."""
    assert len(benchmark(break_down, read(trace, TORCHREC_RANGES))) == STEPS
