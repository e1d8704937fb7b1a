from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from suite import memory as memory_module
from suite.memory import SINCE_RESET, SINCE_START, PeakMemory

BYTES = {
    "embedding_weights": 11,
    "embedding_optimizer_state": 12,
    "dense_parameters": 13,
    "dense_optimizer_state": 14,
}
MIB = 1 << 20
CPU = torch.device("cpu")


def test_the_peak_is_of_the_time_since_the_reset() -> None:
    memory = PeakMemory(CPU)
    before = bytearray(b"x" * (400 * MIB))
    memory.reset()
    assert memory.record(BYTES).process_source == SINCE_RESET
    with_before = memory.record(BYTES).process
    del before
    memory.reset()
    now = memory.record(BYTES).process
    # The 400 MiB were freed before the second reset; half of them leaves room for the allocator.
    assert now < with_before - 200 * MIB
    during = bytearray(b"x" * (100 * MIB))
    del during
    peak = memory.record(BYTES).process
    # 100 MiB were held at some time since; the kernel counts pages in batches, hence the 10 %.
    assert peak > now + 90 * MIB


def test_without_a_reset_the_source_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, content: str) -> int:
        raise PermissionError

    monkeypatch.setattr(Path, "write_text", refuse)
    memory = PeakMemory(CPU)
    memory.reset()
    record = memory.record(BYTES)
    assert record.process_source == SINCE_START
    assert record.process > 10 * MIB


def test_parameter_bytes_are_the_implementations() -> None:
    record = PeakMemory(CPU).record(BYTES)
    assert {name: getattr(record, name) for name in BYTES} == BYTES
    assert (record.allocated_peak, record.reserved_peak) == (None, None)


def test_on_a_gpu_the_process_is_what_it_takes_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's answers are made up: 900 MiB are free before the model is built, 500 after the steps."""
    free = iter([900 * MIB, 500 * MIB])
    for name, answer in {
        "mem_get_info": lambda _: (next(free), 1000 * MIB),
        "reset_peak_memory_stats": lambda _: None,
        "get_device_properties": lambda _: SimpleNamespace(uuid="aaaa-1"),
        "memory_reserved": lambda _: 300 * MIB,
        "max_memory_allocated": lambda _: 200 * MIB,
        "max_memory_reserved": lambda _: 310 * MIB,
    }.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    monkeypatch.setattr(memory_module, "load_library", lambda: None)
    memory = PeakMemory(torch.device("cuda", 0))
    memory.reset()
    record = memory.record(BYTES)
    assert (record.process, record.allocated_peak, record.reserved_peak) == (400 * MIB, 200 * MIB, 310 * MIB)
    assert record.process_source.startswith("the driver")
    assert record.host_process is not None
    assert record.host_process > 10 * MIB
