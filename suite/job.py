"""What a launcher and its ranks exchange: the job going in, each rank's output coming out.

Which rank a process is stands in the environment, in torchrun's variables: ``RANK``, ``WORLD_SIZE``,
``LOCAL_RANK``, ``LOCAL_WORLD_SIZE``, ``MASTER_ADDR``, ``MASTER_PORT``, ``OMP_NUM_THREADS``. The local
launcher adds its own, see ``suite/launchers/variables.py``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import Field

from suite.record import QualityRecord, RankRecord, TableSharding
from suite.spec import Frozen, RunSpec


class Job(Frozen):
    """What every rank of a launch is told."""

    run: RunSpec
    launch: int
    #: The folder that takes ``rank<k>.json``.
    output: Path
    #: The run's folder, which takes the traces.
    folder: Path


class RankOutput(Frozen):
    """What a rank leaves behind when it has finished. Rank 0 speaks for all about quality, sharding, data."""

    record: RankRecord
    quality: QualityRecord | None = None
    sharding: tuple[TableSharding, ...] = ()
    data: dict[str, Any] = Field(default_factory=dict)


def output_file(folder: Path, rank: int) -> Path:
    """Where rank ``rank`` writes its output."""
    return folder / f"rank{rank}.json"


def write_atomically(path: Path, content: str) -> None:
    """Writes under a temporary name and renames, so that a reader sees the whole file or none."""
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_text(content, encoding="utf-8")
    os.replace(temporary, path)
