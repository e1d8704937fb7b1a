"""How much faster second moments grow in 2D: v under M groups over v under 1D, by how often a row is met.

Momentum scaling divides v by one c for all rows, c = M. That is right where v grows M times faster: for a row
that one group alone meets in a step, or whose gradient is mostly noise. A row that every group meets, in a
batch large enough for its gradient to be mostly signal, grows no faster at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from suite.quality.library import Experiment
from suite.quality.pool import side_by_side
from suite.quality.spec import Training
from suite.quality.training import VirtualTraining
from suite.spec import Frozen, SyncOptimizerState, validated

#: A bucket holds the rows that 1D touches in this share of its steps or more, up to the one above.
BUCKETS = (0.9, 0.1, 0.01, 0.0)


class MomentRatio(Frozen):
    """One bucket of one training against 1D. Ratios are None where the bucket is empty."""

    replica_groups: int
    sync_interval: int
    sync_optimizer_state: SyncOptimizerState
    #: Samples of one group in one step, G / M.
    group_batch: float
    touched_from: float
    rows: int
    median: float | None
    #: First and ninth decile.
    low: float | None
    high: float | None


class Growth(NamedTuple):
    """What a training's row-wise second moments came to.

    Arrays: tensors would go from process to process through shared memory, which containers have little of.
    """

    #: By table, v of each row, and the share of the steps times groups that touched it.
    moments: dict[str, NDArray[np.float32]]
    shares: dict[str, NDArray[np.float32]]


def kept_moment_ratios(
    one: Training,
    others: Sequence[Training],
    experiment: Experiment,
    jobs: int,
    done: Callable[[int, int], None],
) -> list[MomentRatio]:
    """``moment_ratios``, trained side by side, and kept in an experiment for who goes on with it."""
    trainings = (one, *others)
    hashes = "-".join(training.training_hash for training in trainings)
    name = f"moments-{hashlib.sha256(hashes.encode()).hexdigest()[:16]}"
    kept = experiment.kept(name)
    if kept is not None:
        return [validated(MomentRatio, ratio, "resume.") for ratio in kept["ratios"]]
    grown: dict[str, Growth] = {}
    done(0, len(trainings))
    for training, growth in side_by_side(grow, trainings, experiment, jobs):
        grown[training.training_hash] = growth
        done(len(grown), len(trainings))
    ratios = ratios_of(grown[one.training_hash], [(t, grown[t.training_hash]) for t in others])
    experiment.keep(name, {"ratios": [ratio.model_dump(mode="json") for ratio in ratios]})
    return ratios


def moment_ratios(one: Training, others: Sequence[Training]) -> list[MomentRatio]:
    """Trains one and then the others in this process, and compares their row-wise second moments.

    Args:
        one: in one group. It and the others keep a row-wise second moment.
        others: the same in more groups.
    """
    return ratios_of(grow(one), [(training, grow(training)) for training in others])


def grow(training: Training) -> Growth:
    """Trains, and looks at the second moments."""
    run = VirtualTraining(training)
    for _ in range(training.steps):
        run.step()
    return Growth(
        {table: state["moment"].squeeze(1).numpy() for table, state in run.replicas.states().items()},
        {table: shares.numpy() for table, shares in run.replicas.touched_shares().items()},
    )


def ratios_of(one: Growth, others: Sequence[tuple[Training, Growth]]) -> list[MomentRatio]:
    """The ratios of what was grown, bucket by bucket, a training of ``others`` after the other."""
    found = []
    tables = list(one.moments)
    before, shares = (np.concatenate([of[table] for table in tables]) for of in (one.moments, one.shares))
    for training, growth in others:
        after = np.concatenate([growth.moments[table] for table in tables])
        for place, least in enumerate(BUCKETS):
            most = BUCKETS[place - 1] if place else float("inf")
            rows = (shares >= least) & (shares < most) & (before > 0)
            ratio = after[rows].astype(np.float64) / before[rows]
            deciles = np.quantile(ratio, (0.1, 0.5, 0.9)) if len(ratio) else None
            found.append(
                MomentRatio(
                    replica_groups=training.replica_groups,
                    sync_interval=training.sync_interval,
                    sync_optimizer_state=training.sync_optimizer_state,
                    group_batch=training.global_batch / training.replica_groups,
                    touched_from=least,
                    rows=int(rows.sum()),
                    low=None if deciles is None else float(deciles[0]),
                    median=None if deciles is None else float(deciles[1]),
                    high=None if deciles is None else float(deciles[2]),
                )
            )
    return found
