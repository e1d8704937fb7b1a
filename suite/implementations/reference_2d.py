"""The reference implementation (``reference_impl``) behind the contract, in 1D (M = 1) and 2D."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import torch
import torch.distributed as dist

from reference_impl.batch import Batch
from reference_impl.groups import make_groups
from reference_impl.sharded_model import shard_model
from reference_impl.sync.contract import NoSync, ReplicaSync
from reference_impl.sync.delayed import DelayedMomentsSync
from reference_impl.sync.immediate import DenseSync
from reference_impl.sync.schedule import Schedule
from reference_impl.train_step import train_step
from suite.checkpoints.tensors import State
from suite.implementations.model import build_model
from suite.implementations.sharded import (
    ShardedImplementation,
    dense_optimizer,
    dense_parameters,
    embedding_optimizer,
)
from suite.spec import RunSpec


class Reference2D(ShardedImplementation):
    """Tables sharded inside each of M groups, averaged between groups on the run's schedule."""

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
        self._adopt(run, model, optimizer, groups.sharding)
        self._sync = self._replica_sync(run, groups.replica)
        self._schedule = Schedule(self._sync, run.sync_interval)

    def _replica_sync(self, run: RunSpec, replica: dist.ProcessGroup | None) -> ReplicaSync:
        if replica is None:
            return NoSync()
        if run.sync_optimizer_state == "delayed":
            return DelayedMomentsSync(self.shards, replica)
        return DenseSync(self.shards, replica)

    def train_step(self, batch: Batch) -> torch.Tensor:
        """See the contract."""
        return train_step(self.model, self.dense_optimizer, self._schedule, batch)

    def sync_replicas(self) -> None:
        """See the contract: a sync that comes early, unless the last step ended with one."""
        self._schedule.catch_up()

    def checkpoint_state(self) -> State:
        """See the contract. Moments that wait for the next sync are ``pending.<name>``."""
        state = dict(super().checkpoint_state())
        if isinstance(self._sync, DelayedMomentsSync):
            waiting = dict(
                zip((id(s) for s in self.shards if s.moments is not None), self._sync.waiting, strict=True)
            )
            state |= {
                f"pending.{name}": part
                for name, part in self._blocks(lambda shard: waiting.get(id(shard))).items()
            }
        return state

    def parameter_bytes(self) -> Mapping[str, int]:
        """See the contract. Moments that wait for the next sync are optimizer state too."""
        held = dict(super().parameter_bytes())
        held["embedding_optimizer_state"] += self._sync.held_bytes()
        return held
