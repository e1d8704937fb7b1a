"""The steps of a rank that are looked at: components, the optimizer's share, memory, a pass each.

They come after the evaluation and are on batches of the timed steps once more, so that they train for nothing
that is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import torch
import torch.distributed as dist

from suite.batches import RankBatches
from suite.collectives import GroupNames
from suite.implementation import Implementation
from suite.job import Job
from suite.launchers.reporter import Reporter
from suite.loading import load_attribute
from suite.record import MemoryProfile, ProfileRecord
from suite.spec import RunSpec
from suite.timed_loop import run_profiled

#: What profiles steps, reached by its name: ``profiles`` depends on ``suite``.
PROFILER = "profiles.capture:Capture"
MEMORY_PROFILER = "profiles.memory:MemoryCapture"


class RankProfile:
    """All passes of one rank. Collective: every rank makes one and calls the same.

    Args:
        groups: the names of this rank's groups.
        reporter: is told of the steps of all passes as one count, so that a later pass is further.
    """

    def __init__(
        self,
        job: Job,
        rank: int,
        device: torch.device,
        implementation: Implementation,
        batches: RankBatches,
        groups: GroupNames,
        reporter: Reporter,
    ) -> None:
        self._job, self._rank, self._device = job, rank, device
        self._implementation, self._batches, self._groups = implementation, batches, groups
        self._reporter = reporter
        self._capture = load_attribute(PROFILER, "profiler")
        self._memory_capture = load_attribute(MEMORY_PROFILER, "profiler")
        run = job.run
        self._cheaper = None if run.optimizer.name == "sgd" else implementation.cheaper_table_optimizer()
        # Whole intervals from sync to sync, or the sync would be found too often or never. In some steps of
        # memory a free is unseen, so there are two intervals and four steps of it at least.
        interval = run.sync_interval
        self._steps = self._capture.starting_steps + -(-run.profile_steps // interval) * interval
        self._memory_steps = self._memory_capture.extra_steps + interval * max(2, -(-4 // interval))
        self._passed = 0
        self._all_steps = self._steps * (1 if self._cheaper is None else 2) + self._memory_steps
        reporter.at("profile", 0, self._all_steps)

    def components(self, median_ms: float) -> ProfileRecord:
        """Component times; once more under a cheaper optimizer, where there is one.

        Args:
            median_ms: of this rank's timed steps, in milliseconds; the slowest rank's trace may be asked for.
        """
        traced = _is_traced(self._job.run, self._rank, median_ms)
        launch = self._job.folder / "trace" / f"launch{self._job.launch}"
        profile = self._components(launch if traced else None)
        if self._cheaper is None:
            return profile
        with self._cheaper:
            again = self._components(None).steps
        plain_sgd_ms = tuple(step.components["lookup_backward_optimizer"].busy_ms for step in again)
        return profile.model_copy(update={"plain_sgd_ms": plain_sgd_ms})

    def memory(self) -> MemoryProfile:
        """Intervals from sync to sync with every call of the allocator told: what that costs is no part of a
        component."""
        capture = self._memory_capture(self._device, self._implementation, self._job.run.sync_interval)
        with capture:
            self._take(self._memory_steps, capture.step)
        found: MemoryProfile = capture.record()
        return found

    def _components(self, keep: Path | None) -> ProfileRecord:
        capture = self._capture(
            self._rank, self._device, self._implementation.component_ranges(), self._groups
        )
        with capture:
            profiled_ms = self._take(self._steps, capture.step)
        record: ProfileRecord = capture.record(profiled_ms, self._job.output, keep, self._job.folder)
        return record

    def _take(self, steps: int, around: Callable[[int], AbstractContextManager[object]]) -> tuple[float, ...]:
        run = self._job.run
        timed, before = run.steps - run.warmup_steps, self._passed
        self._passed += steps
        return run_profiled(
            self._implementation.train_step,
            lambda step: self._batches.train(run.warmup_steps + step % timed),
            steps=steps,
            device=self._device,
            around=around,
            done=lambda step: self._reporter.at("profile", before + step, self._all_steps),
        )


def _is_traced(run: RunSpec, rank: int, median_ms: float) -> bool:
    """Whether this rank's trace is kept. Collective where the slowest rank's is."""
    if run.trace != "slowest":
        return rank in (run.traced_ranks or ())
    everyone: list[float] = [0.0] * run.layout.world_size
    dist.all_gather_object(everyone, median_ms)
    return everyone.index(max(everyone)) == rank
