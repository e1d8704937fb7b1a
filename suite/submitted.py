"""The process of a batch job: ``python -m suite.submitted FOLDER``, on the job's first host.

It runs the configurations that ``suite/submission.py`` wrote into the folder and tells there, a line of JSON
each, how far it is and what became of each. SIGTERM (cancelled, preempted, over its time) stops it as Ctrl-C
does: the ranks are ended and the record of what has finished is kept.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from suite import session
from suite.errors import ConfigError, ErrorReport
from suite.launchers.base import Progress, Stopped
from suite.launchers.slurm_commands import why_ended
from suite.submission import JOB, TOLD, SubmittedJob


class _Teller:
    """Writes what is told, at once and whole lines."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.outcomes = 0

    def tell(self, **content: Any) -> None:
        os.write(self._file, json.dumps(content, default=str).encode() + b"\n")

    def progress(self, place: int, progress: Progress) -> None:
        self.tell(progress=[place, progress.launch, progress.phase, progress.step, progress.steps])

    def outcome(self, path: Path | None, error: ErrorReport | None, kept: int = 0) -> None:
        told = None if error is None else error.model_dump(mode="json", fallback=str)
        self.tell(place=self.outcomes, outcome=path, error=told, kept=kept)
        self.outcomes += 1


def main(folder: Path) -> int:
    """Runs the job; returns what to exit with."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    job = SubmittedJob.model_validate_json((folder / JOB).read_text(encoding="utf-8"))
    teller = _Teller(folder / TOLD)
    try:
        outcomes = session.sweep(
            job.runs,
            job.runs_dir,
            session.open_launcher("slurm"),
            teller.progress,
            lambda _, outcome: teller.outcome(outcome.path, outcome.error, outcome.kept),
            job.resume,
        )
        return 3 if any(outcome.error is not None for outcome in outcomes) else 0
    except ConfigError as error:
        teller.tell(refused=error.report.model_dump(mode="json", fallback=str))
        return error.exit_code
    except session.Interrupted as stopped:
        teller.outcome(stopped.path, stopped.record.error)
        return 130
    finally:
        teller.tell(end=True)


def _on_sigterm(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is sent more than once
    job = os.environ["SLURM_JOB_ID"]
    raise Stopped(*(why_ended(job) or ("cancelled", f"Job {job} was told to end")))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
