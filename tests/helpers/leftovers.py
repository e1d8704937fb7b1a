"""Finds processes by a mark in their environment."""

from __future__ import annotations

import time
from pathlib import Path

MARK = "SPARSE2D_TEST_MARK"


def marked(mark: str) -> list[int]:
    """Ids of the living processes that were started with ``SPARSE2D_TEST_MARK=mark``."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # not a process, not ours, or gone
            continue
        if f"{MARK}={mark}".encode() in environment and state != "Z":
            found.append(int(folder.name))
    return found


def none_within(mark: str, seconds: float) -> bool:
    """Whether no marked process is left at some moment of the next seconds."""
    deadline = time.monotonic() + seconds
    while marked(mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
