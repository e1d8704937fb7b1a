"""Contract: what a launcher is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from suite.record import LaunchRecord
from suite.spec import RunSpec

#: What a rank does, in order: start (import, meet the others), build (data and model), train, evaluate, and
#: train on under the profiler.
Phase = Literal["start", "build", "train", "evaluate", "profile"]
PHASES: tuple[Phase, ...] = ("start", "build", "train", "evaluate", "profile")


@dataclass(frozen=True)
class Progress:
    """How far the slowest rank of a launch is: ``step`` of ``steps`` are done in this phase."""

    launch: int
    phase: Phase
    step: int
    steps: int


class Stopped(KeyboardInterrupt):
    """Everything around a launch is being ended, as by Ctrl-C, but not by the user: ``kind`` is the error's,
    and ``why`` begins a sentence."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__()
        self.kind = kind
        self.why = why


class Launcher(Protocol):
    """Runs one launch: T fresh processes that train and evaluate once."""

    def launch(
        self, run: RunSpec, index: int, folder: Path, on_progress: Callable[[Progress], None]
    ) -> LaunchRecord:
        """Runs launch ``index`` and waits for its end.

        Args:
            run: what to run.
            index: which launch of the run this is, from 0.
            folder: the run's folder; output of rank k goes to ``logs/launch<index>/rank<k>.log`` in it.
            on_progress: called from this thread whenever the slowest rank got further.

        Returns:
            The record of the launch. A launch that fails is a record with ``status`` failed and an error
            that names the rank to blame; its ``log`` is relative to ``folder``. No process is left.

        Raises:
            KeyboardInterrupt: Ctrl-C; the ranks have been ended.
        """
        ...
