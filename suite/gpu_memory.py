"""What one process takes of a GPU: the CUDA context, the allocator's blocks, NCCL's and cuBLAS's own buffers.

NVML knows it, by process, where it may say so. It may not: there is no library or no permission; under MIG a
process is listed by its instance; in a container it knows processes by PIDs of another namespace; some
drivers list a process without its memory. A card's used memory is no answer, for that is everybody's. So,
in this order, and the source is always named:

    NVML          this process's own entry, found by PID
    NVML          the only entry there is, where its PID is of another namespace
    the driver    how much less memory is free than before the model was built; without the context
    the allocator what PyTorch has reserved: a lower bound

The third is taken only where NVML lists no other process: on a GPU that is shared what is free changes with
what others do. An entry that takes less than this process's own allocator has reserved is another's.
"""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from typing import Any, Protocol, cast

OWN = "NVML, this process"
ONLY = "NVML, the only process on the GPU (it knows it by another PID)"
DRIVER = "the driver, memory no longer free since before the model was built"
ALLOCATOR = "PyTorch's allocator, what it has reserved (a lower bound)"


class ListedProcess(Protocol):
    """An entry of NVML's list of processes. ``usedGpuMemory`` is in bytes; None where it is not told."""

    pid: int
    usedGpuMemory: int | None


class Library(Protocol):
    """What is used of nvidia-ml-py's ``pynvml``. Every function may raise ``NVMLError``."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None:
        """Loads the driver's library."""

    def nvmlShutdown(self) -> None:
        """Ends what ``nvmlInit`` began."""

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        """A GPU (``GPU-...``), or an instance of one (``MIG-...``)."""

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[ListedProcess]:
        """Processes with a context on it."""


@dataclass(frozen=True)
class Gpu:
    """What this process knows of its GPU without NVML.

    Attributes:
        uuid: as the driver names the device, with or without ``GPU-`` or ``MIG-``.
        reserved: bytes that PyTorch's allocator has reserved on it.
        taken: bytes by which less is free now than before the model was built; None where that is unknown.
    """

    uuid: str
    reserved: int
    taken: int | None


@dataclass(frozen=True)
class Reading:
    """Bytes that the process takes, and who says so."""

    size: int
    source: str


def load_library() -> Library | None:
    """nvidia-ml-py, where it is installed."""
    try:
        return cast(Library, importlib.import_module("pynvml"))
    except ImportError:
        return None


def read_process(gpu: Gpu, pid: int, library: Library | None) -> Reading:
    """What process ``pid``, which is this one, takes of its GPU. Raises nothing: it falls back."""
    listed, why = _listed(gpu.uuid, library)
    if listed is not None:
        own = [entry for entry in listed if entry.pid == pid] or (listed if len(listed) == 1 else [])
        if not own:
            why = f"NVML lists {len(listed)} processes, none by this PID"
        elif own[0].usedGpuMemory is None:
            why = "NVML lists the process without its memory"
        elif own[0].usedGpuMemory < gpu.reserved:
            why = "NVML's entry is smaller than what this process has reserved"
        else:
            return Reading(own[0].usedGpuMemory, OWN if own[0].pid == pid else ONLY)
    alone = listed is None or len(listed) <= 1
    if alone and gpu.taken is not None and gpu.taken >= max(gpu.reserved, 1):
        return Reading(gpu.taken, f"{DRIVER}; {why}")
    return Reading(gpu.reserved, f"{ALLOCATOR}; {why}")


def _listed(uuid: str, library: Library | None) -> tuple[list[ListedProcess] | None, str]:
    """NVML's processes on a GPU or MIG instance; else None and why not."""
    if library is None:
        return None, "nvidia-ml-py is not installed"
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        return None, f"NVML: {error}"
    try:
        return list(library.nvmlDeviceGetComputeRunningProcesses(_handle(uuid, library))), ""
    except library.NVMLError as error:
        return None, f"NVML: {error}"
    finally:
        with contextlib.suppress(library.NVMLError):
            library.nvmlShutdown()


def _handle(uuid: str, library: Library) -> Any:
    """PyTorch gives UUIDs without saying whether of a card or of an instance."""
    bare = uuid.removeprefix("GPU-").removeprefix("MIG-")
    try:
        return library.nvmlDeviceGetHandleByUUID(f"MIG-{bare}" if uuid.startswith("MIG-") else f"GPU-{bare}")
    except library.NVMLError:
        return library.nvmlDeviceGetHandleByUUID(f"MIG-{bare}")
