"""What every launcher exchanges with its ranks through the run's folder: the job going in, outputs coming
out.

Ranks on several hosts see the same folder under the same path: a shared file system is assumed, and its
absence is told by name before a rank is started.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from suite.errors import ErrorReport
from suite.job import Job, RankOutput, output_file
from suite.record import LaunchRecord

#: Remedy where a rank cannot be started.
LIMITS = "Look at free memory and disk, and at the limits of open files and processes (ulimit)."


def write_job(job_file: Path, job: Job) -> ErrorReport | None:
    """Writes what the ranks are to do; the error where it cannot be written."""
    try:
        job_file.parent.mkdir(parents=True)
        job_file.write_text(job.model_dump_json(), encoding="utf-8")
    except OSError as error:
        return ErrorReport(
            kind="cannot_save",
            field="runs",
            value=str(job_file.parent.parent),
            message=f"What the ranks are to do could not be written: {error.strerror}.",
            remedy="Make room, or name another folder with --runs.",
        )
    return None


def read_outputs(exchange: Path, world_size: int, patience_s: float = 0.0) -> list[RankOutput]:
    """The outputs of all ranks, which have finished.

    Args:
        exchange: the folder they are in.
        world_size: how many there are.
        patience_s: for files to show that another host has written.

    Raises:
        FileNotFoundError: one is not there after that time.
    """
    deadline = time.monotonic() + patience_s
    outputs = []
    for rank in range(world_size):
        file = output_file(exchange, rank)
        while not file.exists() and time.monotonic() < deadline:
            os.listdir(exchange)  # has a network file system ask again
            time.sleep(0.2)
        outputs.append(RankOutput.model_validate_json(file.read_text(encoding="utf-8")))
    return outputs


def launch_record(
    index: int, started: str, duration_s: float, outputs: list[RankOutput], error: ErrorReport | None
) -> LaunchRecord:
    """The record of a launch that is over."""
    if error is not None:
        return LaunchRecord(index=index, started=started, duration_s=duration_s, status="failed", error=error)
    return LaunchRecord(
        index=index,
        started=started,
        duration_s=duration_s,
        status="complete",
        ranks=tuple(output.record for output in outputs),
        quality=outputs[0].quality,
        sharding=outputs[0].sharding,
        data=outputs[0].data,
    )


def importable() -> dict[str, str]:
    """What this process can import, the ranks can: the folder of a workload's TOML may be among it."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
