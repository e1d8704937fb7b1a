"""One step whose outcome can be worked out by hand: a model with a known gradient, from zero weights.

One sample a rank, G = T. Sample i looks up two rows: row 0, as all samples do, and row 1 + i, its own.
Weights are 0 and labels 0, so that d loss / d logit = sigmoid(0) - 0 = 0.5 for every sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from suite.oracle.batch import GlobalBatch

ROWS, DIM = 8, 4


@dataclass(frozen=True)
class OneRow:
    """Which model of ``tests.helpers.models`` takes the step, how."""

    factory: str
    world_size: int
    replica_groups: int = 1
    placement: str = "interleaved"
    sharding: str = "table_wise"
    optimizer: str = "sgd"
    learning_rate: float = 1.0
    eps: float = 1e-8


@dataclass(frozen=True)
class FirstStep:
    """The table as this rank's group holds it, before and after its replicas are averaged."""

    weights_before_sync: list[list[float]]
    weights_after_sync: list[list[float]]
    moments_after_sync: list[float]


def first_step(case: OneRow) -> FirstStep:
    """Job of a rank."""
    import torch.distributed as dist

    from suite.implementations.reference_2d import Reference2D
    from suite.spec import RunSpec
    from tests.helpers.training import rank_batch

    t = case.world_size
    run = RunSpec.model_validate(
        {
            "workload": {
                "name": "one_row",
                "model": {"dense_features": 1, "factory": f"tests.helpers.models:{case.factory}"},
                "tables": [{"name": "t", "rows": ROWS, "dim": DIM, "features": ["f"]}],
                "data": {"source": "unused:Unused"},
                "batch": {"global_size": t, "per_rank": 1},
            },
            "layout": {
                "world_size": t,
                "replica_groups": case.replica_groups,
                "placement": case.placement,
                "sharding": case.sharding,
            },
            "sync_interval": 2,  # so that the first step ends without a sync
            "optimizer": {
                "name": case.optimizer,
                "learning_rate": case.learning_rate,
                "eps": case.eps,
                "dense": {"name": "sgd"},
            },
        }
    )
    model = Reference2D(run, torch.device("cpu"))
    for shard in model.shards:
        shard.weight.detach().zero_()
    samples = GlobalBatch(torch.zeros(t, 1), torch.zeros(t), {"f": [[0, 1 + i] for i in range(t)]})
    model.train_step(rank_batch(samples, run, dist.get_rank()))
    before = model.gather_weights()["table.t"].tolist()
    model.sync_replicas()
    after = model.gather_weights()
    moments = after["moment.t"].tolist() if "moment.t" in after else []
    return FirstStep(before, after["table.t"].tolist(), moments)
