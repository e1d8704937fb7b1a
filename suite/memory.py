"""Peak memory of one rank over the timed steps.

The process's figure is the peak of its resident set, from the kernel's own high-water mark, which is reset
after the warm-up steps. Where the kernel refuses the reset, it is the peak since the process started,
which importing the libraries and building the model may have set; ``process_source`` says which it is.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path

import torch

from suite.record import MemoryRecord

SINCE_RESET = "VmHWM over the timed steps"
SINCE_START = "ru_maxrss since the process started"


class PeakMemory:
    """Measures between ``reset`` and ``record``."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._source = SINCE_START

    def reset(self) -> None:
        """Starts measuring: what was used before and freed no longer counts."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        try:
            Path("/proc/self/clear_refs").write_text("5")  # 5: reset the peak resident set size
            self._source = SINCE_RESET
        except OSError:
            self._source = SINCE_START

    def record(self, parameter_bytes: Mapping[str, int]) -> MemoryRecord:
        """The peaks so far beside the bytes that the implementation says its parameters take."""
        cuda = self._device.type == "cuda"
        return MemoryRecord(
            embedding_weights=parameter_bytes["embedding_weights"],
            embedding_optimizer_state=parameter_bytes["embedding_optimizer_state"],
            dense_parameters=parameter_bytes["dense_parameters"],
            dense_optimizer_state=parameter_bytes["dense_optimizer_state"],
            process=_peak_resident_set() if self._source == SINCE_RESET else _peak_since_start(),
            process_source=self._source,
            allocated_peak=torch.cuda.max_memory_allocated(self._device) if cuda else None,
            reserved_peak=torch.cuda.max_memory_reserved(self._device) if cuda else None,
        )


def _peak_resident_set() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def _peak_since_start() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
