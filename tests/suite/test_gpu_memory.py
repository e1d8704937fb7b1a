"""What a process takes of a GPU, told by a library that is made up: no GPU, no driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from suite.gpu_memory import ALLOCATOR, DRIVER, ONLY, OWN, Gpu, load_library, read_process

GIB = 1 << 30
PID = 4711
CARD, INSTANCE = "GPU-aaaa-1", "MIG-bbbb-2"


class FakeError(Exception):
    pass


@dataclass
class Listed:
    pid: int
    usedGpuMemory: int | None


@dataclass
class FakeNvml:
    """Processes by UUID; a device that is not named is not found."""

    processes: dict[str, list[Listed]] = field(default_factory=dict)
    init_error: str | None = None
    list_error: str | None = None
    open: int = 0

    NVMLError: ClassVar[type[Exception]] = FakeError

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise FakeError(self.init_error)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.processes:
            raise FakeError("Not Found")
        return uuid

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Listed]:
        if self.list_error is not None:
            raise FakeError(self.list_error)
        return self.processes[handle]


def read(library, uuid=CARD, reserved=2 * GIB, taken=3 * GIB):
    reading = read_process(Gpu(uuid, reserved, taken), PID, library)
    assert library is None or library.open == 0, "NVML was left open"
    return reading.size, reading.source


def test_its_own_entry_among_neighbours():
    library = FakeNvml({CARD: [Listed(1, 70 * GIB), Listed(PID, 5 * GIB), Listed(2, 9 * GIB)]})
    assert read(library) == (5 * GIB, OWN)


def test_of_several_gpus_its_own():
    library = FakeNvml({"GPU-other": [Listed(PID, 40 * GIB)], CARD: [Listed(PID, 5 * GIB)]})
    assert read(library) == (5 * GIB, OWN)


@pytest.mark.parametrize("uuid", ["aaaa-1", CARD])
def test_a_uuid_as_pytorch_gives_it(uuid):
    assert read(FakeNvml({CARD: [Listed(PID, 5 * GIB)]}), uuid) == (5 * GIB, OWN)


@pytest.mark.parametrize("uuid", ["bbbb-2", INSTANCE])
def test_an_instance_of_mig(uuid):
    library = FakeNvml({CARD: [Listed(1, 70 * GIB)], INSTANCE: [Listed(PID, 5 * GIB)]})
    assert read(library, uuid) == (5 * GIB, OWN)


def test_in_a_container_the_only_process_has_another_pid():
    assert read(FakeNvml({CARD: [Listed(99, 5 * GIB)]})) == (5 * GIB, ONLY)


def test_in_a_container_several_processes_are_not_told_apart():
    """Not the sum, not the largest, and not what is free: a neighbour has a part in each."""
    size, source = read(FakeNvml({CARD: [Listed(99, 5 * GIB), Listed(98, 60 * GIB)]}), taken=40 * GIB)
    assert (size, source) == (2 * GIB, f"{ALLOCATOR}; NVML lists 2 processes, none by this PID")


def test_a_neighbour_with_this_pid_is_found_out():
    """PIDs of two containers may be equal. What takes less than this process has reserved is another."""
    size, source = read(FakeNvml({CARD: [Listed(PID, GIB), Listed(98, 60 * GIB)]}))
    assert (size, source.partition(";")[0]) == (2 * GIB, ALLOCATOR)


def test_a_container_from_which_no_process_is_seen():
    size, source = read(FakeNvml({CARD: []}))
    assert (size, source) == (3 * GIB, f"{DRIVER}; NVML lists 0 processes, none by this PID")


def test_a_driver_that_does_not_tell_a_processs_memory():
    size, source = read(FakeNvml({CARD: [Listed(PID, None)]}))
    assert (size, source) == (3 * GIB, f"{DRIVER}; NVML lists the process without its memory")


@pytest.mark.parametrize(
    ("library", "why"),
    [
        (None, "nvidia-ml-py is not installed"),
        (FakeNvml(init_error="Driver Not Loaded"), "NVML: Driver Not Loaded"),
        (FakeNvml({CARD: []}, list_error="Insufficient Permissions"), "NVML: Insufficient Permissions"),
        (FakeNvml({}), "NVML: Not Found"),
    ],
)
def test_without_nvml_the_driver_says_what_is_no_longer_free(library, why):
    assert read(library) == (3 * GIB, f"{DRIVER}; {why}")


@pytest.mark.parametrize("taken", [None, 0, -4 * GIB, GIB])
def test_a_difference_that_cannot_be_right_is_not_taken(taken):
    """A neighbour that ended meanwhile left more free than before. Never 0, never less than is reserved."""
    size, source = read(None, taken=taken)
    assert (size, source) == (2 * GIB, f"{ALLOCATOR}; nvidia-ml-py is not installed")


def test_the_real_library_is_what_is_asked_for():
    library = load_library()
    assert library is not None
    for name in (
        "nvmlInit",
        "nvmlShutdown",
        "nvmlDeviceGetHandleByUUID",
        "nvmlDeviceGetComputeRunningProcesses",
    ):
        assert callable(getattr(library, name))
    assert issubclass(library.NVMLError, Exception)
    # Where there is no GPU it raises its own error, which is caught.
    assert read_process(Gpu(CARD, GIB, None), PID, library).size == GIB
