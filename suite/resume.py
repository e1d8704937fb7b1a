"""Going on with what an earlier, ended call of the same command has left.

A configuration is the same when every field of its RunSpec is, and its record counts when it was made in the
same environment (flags and uncommitted changes apart). Then

- a complete record is kept, and nothing is run;
- of one that was ended before it had finished (Ctrl-C, a signal, a full disk) the finished launches are kept,
  and the others are run into the same record;
- one in which a launch FAILED is evidence: it stays as it is, and the configuration is run anew.

Nothing of this happens unless it is asked for: a sweep that is called again measures again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from suite.environment import differences
from suite.errors import ConfigError
from suite.record import EnvironmentRecord, LaunchRecord, RunRecord
from suite.spec import RunSpec
from suite.store import RunFolder, is_going_on, reopen, runs_of

#: Kinds of error of a run that did not fail, but was ended: by the user, or by Slurm.
ENDED = ("interrupted", "cancelled", "time_limit", "preempted", "node_failed")
#: Facts of an environment that may change between two calls of one command: a run makes the folder that makes
#: the checkout dirty, and network interfaces come and go.
_PASSING = ("flags", "git_dirty", "network.")


@dataclass(frozen=True)
class Kept:
    """A complete record and its folder."""

    record: RunRecord
    path: Path

    @property
    def launches(self) -> tuple[LaunchRecord, ...]:
        """All of them."""
        return self.record.launches


def refuse_ongoing(runs: Iterable[RunSpec], runs_dir: Path) -> None:
    """Refuses to resume what another process is still running.

    Raises:
        ConfigError: ``resume``, naming the folder.
    """
    for run in runs:
        for path, record in runs_of(run, runs_dir):
            if record.status != "complete" and path.name.startswith(".") and is_going_on(path):
                raise ConfigError(
                    "resume",
                    str(path),
                    "another process is still running this configuration.",
                    "Wait for its end, or leave out --resume to measure beside it.",
                )


def earlier(run: RunSpec, runs_dir: Path, environment: EnvironmentRecord) -> Kept | RunFolder | None:
    """What an earlier call left of this configuration: all of it, a part to go on with, or nothing."""
    # A job of Slurm may get other hosts of the same kind.
    passing = _PASSING if run.launcher == "local" else (*_PASSING, "host", "cluster.", "variables.GLOO_")
    alike = [
        (path, record)
        for path, record in runs_of(run, runs_dir)
        if not any(not d.field.startswith(passing) for d in differences(record.environment, environment))
    ]
    for path, record in reversed(alike):
        if record.status == "complete" and not path.name.startswith("."):
            return Kept(record, path)
    for path, record in sorted(alike, key=lambda found: len(found[1].launches), reverse=True):
        was_ended = record.status == "complete" or (record.error is not None and record.error.kind in ENDED)
        if was_ended and (folder := reopen(path, environment.flags)) is not None:
            return folder
    return None
