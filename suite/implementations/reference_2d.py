"""The reference implementation (``reference_impl``) behind the contract, in 1D (M = 1) and 2D."""

from __future__ import annotations

from datetime import timedelta

import torch

from reference_impl.batch import Batch
from reference_impl.groups import make_groups
from reference_impl.sharded_model import shard_model
from reference_impl.sync import DenseSync, NoSync, ReplicaSync
from reference_impl.train_step import train_step
from suite.implementations.model import build_model
from suite.implementations.sharded import (
    ShardedImplementation,
    dense_optimizer,
    dense_parameters,
    embedding_optimizer,
)
from suite.spec import RunSpec


class Reference2D(ShardedImplementation):
    """Tables sharded inside each of M groups, averaged between groups after every step."""

    def __init__(self, run: RunSpec, device: torch.device) -> None:
        groups = make_groups(run.layout.ranks(), device, timedelta(seconds=run.stall_timeout_s))
        sharding = {t.name: run.layout.sharding_of(t.name) for t in run.workload.tables}
        model = shard_model(
            build_model(run.workload, run.seed, device),
            groups,
            sharding,
            embedding_optimizer(run),
            run.seed,
            device,
        )
        optimizer = dense_optimizer(run.optimizer.dense, dense_parameters(model).values())
        self._adopt(model, optimizer, groups.sharding)
        self._sync: ReplicaSync = (
            NoSync() if groups.replica is None else DenseSync(self.shards, groups.replica)
        )

    def train_step(self, batch: Batch) -> torch.Tensor:
        """See the contract."""
        return train_step(self.model, self.dense_optimizer, self._sync, batch)

    def sync_replicas(self) -> None:
        """See the contract. ``dense`` leaves replicas equal after every step; averaging again is harmless."""
        self._sync()
