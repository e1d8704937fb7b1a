"""Profiles steps in a rank's process. The suite loads ``Capture`` by its name (``suite.rank_run``)."""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function

from profiles.breakdown import break_down
from profiles.ranks import Arrivals, arrivals, offsets, samples
from profiles.trace import METADATA, read
from profiles.writing import write_trace
from suite.collectives import GroupNames
from suite.errors import ErrorReport, RunFailed
from suite.record import ProfileRecord, TraceFile


class Capture:
    """``torch.profiler`` over a few steps of one rank.

    Use as a context around the steps, with ``step`` around each; then ``record``.

    Args:
        rank: this rank.
        device: where it trains.
        ranges: of the components (``Implementation.component_ranges``).
        groups: of this rank.
    """

    #: The first steps under the profiler pay for its start: they are taken, and left out.
    starting_steps: ClassVar[int] = 1

    def __init__(
        self, rank: int, device: torch.device, ranges: Mapping[str, tuple[str, ...]], groups: GroupNames
    ) -> None:
        self._rank = rank
        self._ranges = ranges
        activities = [ProfilerActivity.CPU]
        if device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        # Shapes are what bytes are computed from.
        self._profiler = profile(activities=activities, record_shapes=True)
        self._metadata = {
            "rank": rank,
            "groups": {name: list(ranks) for name, ranks in groups.members().items()},
            "ranges": {name: list(prefixes) for name, prefixes in ranges.items()},
        }

    def __enter__(self) -> Capture:
        self._profiler.__enter__()
        self._profiler.add_metadata_json(METADATA, json.dumps(self._metadata))
        return self

    def __exit__(self, *raised: object) -> None:
        self._profiler.__exit__(*raised)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Around one step. The first ``starting_steps`` are not marked as steps, and so not looked at."""
        if number < self.starting_steps:
            yield
            return
        with record_function(f"ProfilerStep#{number - self.starting_steps}"):
            yield

    def record(
        self, step_ms: tuple[float, ...], scratch: Path, keep: Path | None, relative_to: Path
    ) -> ProfileRecord:
        """Breaks the steps down, with the other ranks. Collective: every rank calls it once.

        Args:
            step_ms: of all steps, the starting ones included.
            scratch: a folder for the trace on its way.
            keep: the folder that takes this rank's trace; None to throw it away.
            relative_to: the run's folder.

        Raises:
            OSError: the trace cannot be written.
            RunFailed: it cannot, and torch keeps silent about why (kind ``cannot_save``).
        """
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            exported = Path(folder) / "trace.json"
            self._profiler.export_chrome_trace(str(exported))
            if not exported.exists() or not exported.stat().st_size:  # torch raises nothing
                raise RunFailed(
                    ErrorReport(
                        kind="cannot_save",
                        field="runs",
                        value=str(scratch),
                        message="The trace could not be written there: the disk may be full.",
                        remedy="Make room, or name another folder with --runs.",
                    )
                )
            steps = break_down(read(exported, self._ranges))
            told: list[Arrivals | None] = [None] * dist.get_world_size()
            dist.all_gather_object(told, arrivals(steps, socket.gethostname()))
            ranks = {rank: found for rank, found in enumerate(told) if found is not None}
            trace = None
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                path = keep / f"rank{self._rank}.{time.time_ns() // 1_000_000}.pt.trace.json.gz"
                written = write_trace(exported, path)
                trace = TraceFile(
                    path=str(path.relative_to(relative_to)),
                    steps=written.steps,
                    steps_left_out=written.steps_left_out,
                )
        return ProfileRecord(
            step_ms=step_ms[self.starting_steps :],
            steps=tuple(samples(steps, self._rank, ranks)),
            clock=offsets(ranks)[1],
            trace=trace,
        )
