"""Reads a folder of traces, one a rank: of the suite, or of a user's own training with TorchRec."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from profiles.breakdown import StepTimes, break_down
from profiles.ranks import Clock, arrivals, offsets, samples
from profiles.trace import Trace, bad_trace, read
from suite.implementations.ranges import OTHER_RANGES, TORCHREC_RANGES
from suite.record import ProfiledStep

SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True)
class Traces:
    """What a folder holds: by rank its steps, how clocks were compared, and what a reader must know."""

    ranks: dict[int, list[ProfiledStep]]
    clock: Clock
    notes: tuple[str, ...]


def trace_files(folder: Path) -> list[Path]:
    """The traces directly in a folder, or the file itself."""
    if folder.is_file():
        return [folder]
    return sorted(p for p in folder.iterdir() if p.name.endswith(SUFFIXES) and not p.name.startswith("."))


def read_traces(folder: Path) -> Traces:
    """Reads and breaks down every trace of a folder.

    Raises:
        ConfigError: of kind ``bad_trace``: there is none, one cannot be read, or which rank a file is of
            cannot be told.
    """
    files = trace_files(folder)
    if not files:
        raise bad_trace(folder, "there is no trace in it.", "Name the folder of *.pt.trace.json.gz files.")
    names = {
        component: (*TORCHREC_RANGES.get(component, ()), *OTHER_RANGES.get(component, ()))
        for component in TORCHREC_RANGES
    }
    # One after the other: of each file only what was found in it is kept.
    steps: dict[int, list[StepTimes]] = {}
    hosts: dict[int, str] = {}
    of: dict[int, Path] = {}
    world_sizes, repaired = set(), 0
    for file in files:
        trace = read(file, names)
        rank = _rank(trace, alone=len(files) == 1)
        if rank in of:
            raise bad_trace(
                folder,
                f"two files are of rank {rank}: {of[rank].name} and {file.name}.",
                "Keep one file a rank in a folder: one cycle of the profiler, of one run.",
            )
        of[rank], hosts[rank], steps[rank] = file, trace.host, break_down(trace)
        world_sizes.add(trace.world_size)
        repaired += trace.repaired
    told = {rank: arrivals(found, hosts[rank]) for rank, found in steps.items()}
    return Traces(
        {rank: samples(found, rank, told) for rank, found in sorted(steps.items())},
        offsets(told)[1],
        tuple(_notes(sorted(of), max((size for size in world_sizes if size), default=None), repaired)),
    )


def _rank(trace: Trace, alone: bool) -> int:
    if trace.rank is not None:
        return trace.rank
    if alone:
        return 0
    raise bad_trace(
        trace.path,
        "it does not say which rank it is of, and there are other files beside it.",
        "Profile with torch.distributed initialised (distributedInfo), or read this file alone.",
    )


def _notes(ranks: list[int], world_size: int | None, repaired: int) -> list[str]:
    notes = []
    if world_size is not None and (missing := sorted(set(range(world_size)) - set(ranks))):
        notes.append(
            f"traces of {len(missing)} of {world_size} ranks are missing ({_some(missing)}): waits for them "
            "are unknown"
        )
    if repaired:
        notes.append(f"{repaired} events had a negative duration and count as nothing")
    return notes


def _some(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
