"""How much faster second moments grow in 2D: v under M groups over v under 1D, by how often a row is met.

Momentum scaling divides v by one c for all rows, c = M. That is right where v grows M times faster: for a row
that one group alone meets in a step, or whose gradient is mostly noise. A row that every group meets, in a
batch large enough for its gradient to be mostly signal, grows no faster at all.
"""

from __future__ import annotations

import hashlib

import torch

from suite.quality.library import Experiment
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


def kept_moment_ratios(one: Training, others: list[Training], experiment: Experiment) -> list[MomentRatio]:
    """``moment_ratios``, kept in an experiment for who goes on with it."""
    hashes = "-".join(training.training_hash for training in (one, *others))
    name = f"moments-{hashlib.sha256(hashes.encode()).hexdigest()[:16]}"
    kept = experiment.kept(name)
    if kept is None:
        ratios = moment_ratios(one, others)
        experiment.keep(name, {"ratios": [ratio.model_dump(mode="json") for ratio in ratios]})
        return ratios
    return [validated(MomentRatio, ratio, "resume.") for ratio in kept["ratios"]]


def moment_ratios(one: Training, others: list[Training]) -> list[MomentRatio]:
    """Trains one and then the others in this process, and compares their row-wise second moments.

    Args:
        one: in one group. It and the others keep a row-wise second moment.
        others: the same in more groups.
    """
    base = _trained(one)
    shares = torch.cat(list(base.replicas.touched_shares().values()))
    before = _moments(base)
    found = []
    for training in others:
        after = _moments(_trained(training))
        for place, least in enumerate(BUCKETS):
            most = BUCKETS[place - 1] if place else float("inf")
            rows = (shares >= least) & (shares < most) & (before > 0)
            ratio = (after[rows] / before[rows]).double()
            deciles = (
                torch.quantile(ratio, torch.tensor([0.1, 0.5, 0.9], dtype=ratio.dtype))
                if len(ratio)
                else None
            )
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


def _trained(training: Training) -> VirtualTraining:
    run = VirtualTraining(training)
    for _ in range(training.steps):
        run.step()
    return run


def _moments(run: VirtualTraining) -> torch.Tensor:
    return torch.cat([state["moment"].squeeze(1) for state in run.replicas.states().values()])
