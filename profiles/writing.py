"""Writes a trace to keep: gzipped, whole or not at all, and no larger than a viewer opens.

By the name, ``<worker>.<time>.pt.trace.json.gz``, TensorBoard's profiler plugin finds traces; a folder of
them is one run there. Perfetto opens each.
"""

from __future__ import annotations

import gzip
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec

from profiles.trace import STEP, Event

#: Bytes of JSON. Larger ones are slow to open anywhere.
LIMIT = 256 << 20


@dataclass(frozen=True)
class Written:
    """How many steps are in the file, and how many were left out to keep it small."""

    steps: int
    steps_left_out: int


def write_trace(exported: Path, path: Path, limit: int = LIMIT) -> Written:
    """Copies the trace that a profiler exported.

    Above ``limit`` bytes the last steps are left out, at least one stays, and the file says so under
    ``sparse2d_steps_left_out``.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    temporary = path.with_name(f".{path.name}.partial")
    try:
        if exported.stat().st_size <= limit:
            content, written = None, Written(_count_steps(exported), 0)
        else:
            content, written = _shortened(exported, limit)
        with gzip.open(temporary, "wb", compresslevel=6) as file:
            if content is None:
                with exported.open("rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)
            else:
                file.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return written


def _count_steps(exported: Path) -> int:
    found = set()
    with exported.open("rb") as file:
        for line in file:
            if b"ProfilerStep#" in line:
                found.update(STEP.findall(line.decode(errors="replace")))
    return len(found)


def _shortened(exported: Path, limit: int) -> tuple[bytes, Written]:
    """As many of the first steps as fit, with everything before the end of the last of them."""
    whole = msgspec.json.decode(exported.read_bytes(), type=dict[str, msgspec.Raw])
    raw = msgspec.json.decode(whole["traceEvents"], type=list[msgspec.Raw])
    events = [(msgspec.json.decode(text, type=Event, strict=False), text) for text in raw]
    ends = sorted(
        {
            e.name: e.ts + e.dur for e, _ in events if e.cat == "user_annotation" and STEP.match(e.name)
        }.values()
    )
    kept, count = [text for _, text in events], len(ends)
    while count > 1 and sum(len(bytes(text)) for text in kept) > limit:
        count -= 1
        # Metadata events have no time of their own.
        kept = [text for event, text in events if event.ph == "M" or event.ts <= ends[count - 1]]
    whole["traceEvents"] = msgspec.Raw(msgspec.json.encode(kept))
    whole["sparse2d_steps_left_out"] = msgspec.Raw(str(len(ends) - count).encode())
    return msgspec.json.encode(whole), Written(count, len(ends) - count)
