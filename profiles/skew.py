"""Which rank the others wait for, and in what it is late."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.components import COMPONENTS
from suite.record import ProfiledStep


@dataclass(frozen=True)
class Skew:
    """How unevenly the ranks work.

    A rank's own work in a step is the step without its waits for other ranks.

    Attributes:
        work_ms: the median over steps, by rank; None where the waits are not known.
        imbalance: the largest over the mean; None with one rank or unknown waits.
        straggler: the rank with the most work; None likewise.
        component: in which the straggler exceeds the other ranks' mean most.
        late_ms: by how much, in that component.
    """

    work_ms: Mapping[int, float | None]
    imbalance: float | None = None
    straggler: int | None = None
    component: str | None = None
    late_ms: float | None = None


def skew(ranks: Mapping[int, Sequence[ProfiledStep]]) -> Skew:
    """Compares the ranks' steps, which must be the same steps."""
    work = {rank: _median([_work(step) for step in steps]) for rank, steps in ranks.items()}
    known = {rank: ms for rank, ms in work.items() if ms is not None}
    if len(known) < max(2, len(work)) or not any(known.values()):
        return Skew(work)
    straggler = max(known, key=lambda rank: known[rank])
    own = {
        rank: {c: _median([_own(s, c) for s in steps]) or 0.0 for c in COMPONENTS}
        for rank, steps in ranks.items()
    }
    late = {
        c: own[straggler][c] - statistics.mean(of[c] for rank, of in own.items() if rank != straggler)
        for c in COMPONENTS
    }
    component = max(late, key=lambda c: late[c])
    return Skew(
        work, known[straggler] / statistics.mean(known.values()), straggler, component, late[component]
    )


def _work(step: ProfiledStep) -> float | None:
    """Unknown where a communication that took place has unknown waits."""
    waits = 0.0
    for sample in step.components.values():
        if sample.calls:
            if sample.wait_ms is None:
                return None
            waits += sample.wait_ms
    return step.step_ms - waits


def _own(step: ProfiledStep, component: str) -> float | None:
    sample = step.components[component]
    return sample.exposed_ms - (sample.wait_ms or 0.0)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None
