"""Peak memory of one rank over the timed steps.

On a CPU the process's figure is the peak of its resident set, from the kernel's own high-water mark, which
is reset after the warm-up steps. Where the kernel refuses the reset, it is the peak since the process
started, which importing the libraries and building the model may have set; ``process_source`` says which it
is. On a GPU it is what the process takes of the GPU after the timed steps (``suite.gpu_memory``): PyTorch's
allocator gives nothing back meanwhile, so that is the peak too. The resident set stands beside it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path

import torch

from suite.gpu_memory import Gpu, load_library, read_process
from suite.memory_categories import LASTING
from suite.record import MemoryRecord

SINCE_RESET = "VmHWM over the timed steps"
SINCE_START = "ru_maxrss since the process started"


class PeakMemory:
    """Measures between ``reset`` and ``record``. Made before the model is built."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._source = SINCE_START
        self._free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0

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
        lasting = {category: parameter_bytes[category] for category in LASTING}
        resident = _peak_resident_set() if self._source == SINCE_RESET else _peak_since_start()
        if self._device.type == "cpu":
            return MemoryRecord(**lasting, process=resident, process_source=self._source)
        gpu = Gpu(
            uuid=str(torch.cuda.get_device_properties(self._device).uuid),
            reserved=torch.cuda.memory_reserved(self._device),
            taken=self._free - torch.cuda.mem_get_info(self._device)[0],
        )
        taken = read_process(gpu, os.getpid(), load_library())
        return MemoryRecord(
            **lasting,
            process=taken.size,
            process_source=taken.source,
            host_process=resident,
            allocated_peak=torch.cuda.max_memory_allocated(self._device),
            reserved_peak=torch.cuda.max_memory_reserved(self._device),
        )


def _peak_resident_set() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def _peak_since_start() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
