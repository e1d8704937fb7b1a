"""What Linux tells about processes, the promise that none outlives its parent, and its standard streams."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_CGROUP = Path("/sys/fs/cgroup")


def die_with_parent(parent: int, sent: signal.Signals = signal.SIGKILL) -> None:
    """Has the kernel signal this process when its parent ends, however the parent ends.

    Args:
        parent: the process that started this one. If it has gone already, the signal will never come
            (this process was handed to another parent), so this process ends at once.
        sent: the signal.
    """
    signal_with_parent(sent)
    if os.getppid() != parent:
        os._exit(1)


def signal_with_parent(sent: signal.Signals) -> None:
    """The same for a process that does not know who started it: whoever is its parent now."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, sent)


def take_standard_streams() -> None:
    """Opens /dev/null as whichever of 0, 1 and 2 is closed.

    Otherwise the next pipe or socket gets that number, and the redirection of a child's standard streams
    overwrites it there.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def process_state(pid: int) -> str | None:
    """The one-letter state of ``ps`` (R, S, D, T, Z, ...), or None where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name before it is in brackets and may hold anything, spaces and brackets too.
    return stat.rpartition(")")[2].split()[0]


def processes_with(variable: str, value: str) -> list[int]:
    """Ids of the living processes whose environment had ``variable=value`` when they were started."""
    entry = f"{variable}={value}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and process_state(int(folder.name)) not in (None, "Z"):
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:  # somebody else's, or gone
                continue
            if entry in environment.split(b"\0"):
                found.append(int(folder.name))
    return found


def memory_group(pid: int) -> Path | None:
    """The control group (of either version) that limits the memory of a process; None where there is none."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if path == "/":  # the root limits nothing
            continue
        folder = _CGROUP / ("memory" if controllers else "") / path.lstrip("/")
        if "memory" in controllers.split(",") or (controllers == "" and (folder / "memory.events").exists()):
            return folder
    return None


def oom_kills(group: Path) -> int:
    """How many processes of a control group the kernel has killed because its memory was used up."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            words = dict(line.split() for line in (group / name).read_text().splitlines())
        except (OSError, ValueError):
            continue
        return int(words.get("oom_kill", 0))
    return 0
