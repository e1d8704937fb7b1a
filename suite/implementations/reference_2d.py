"""The reference implementation (``reference_impl``) behind the contract, in 1D (M = 1) and 2D."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import torch

from reference_impl.batch import Batch
from reference_impl.groups import ProcessGroups, make_groups
from reference_impl.sharded_model import shard_model
from reference_impl.sync.contract import NoSync, ReplicaSync, Together
from reference_impl.sync.delayed import DelayedMomentsSync
from reference_impl.sync.immediate import DenseSync
from reference_impl.sync.schedule import Schedule
from reference_impl.train_step import train_step
from suite.checkpoints.tensors import State
from suite.implementations.planning import sharding_plan
from suite.implementations.sharded import (
    ShardedImplementation,
    dense_optimizer,
    dense_parameters,
    embedding_optimizer,
)
from suite.memory_categories import Category
from suite.spec import RunSpec


class Reference2D(ShardedImplementation):
    """Tables sharded inside each of M groups, averaged between groups on the run's schedule."""

    def __init__(self, run: RunSpec, device: torch.device) -> None:
        groups = make_groups(run.layout.ranks(), device, timedelta(seconds=run.stall_timeout_s))
        model = self._trainable(run, device)
        plan = sharding_plan(run, model, device)
        sharded = shard_model(
            model, groups, plan, embedding_optimizer(run), run.seed, device, run.exchange_dtype
        )
        dense = dense_optimizer(run.optimizer.dense, dense_parameters(sharded.module).values())
        self._adopt(run, sharded, plan, dense, groups.sharding)
        self._optimizers = [dense] if sharded.unfused is None else [dense, sharded.unfused]
        self._sync = self._replica_sync(run, groups)
        self._schedule = Schedule(self._sync, run.sync_interval)
        self._enter_pipeline(run, self._optimizers, device)

    def _replica_sync(self, run: RunSpec, groups: ProcessGroups) -> ReplicaSync:
        if groups.replica is None:
            return NoSync()
        strategy = DelayedMomentsSync if run.sync_optimizer_state == "delayed" else DenseSync
        split = [shard for shard in self.shards if not shard.on_all_ranks]
        whole = [shard for shard in self.shards if shard.on_all_ranks]
        if not whole:
            return strategy(split, groups.replica)
        # Over all T ranks, N equal copies a group: a mean over each replica set by itself might round
        # unlike, and the copies of a group would drift apart.
        return Together([strategy(split, groups.replica), strategy(whole, groups.world)])

    def train_step(self, batch: Batch) -> torch.Tensor:
        """See the contract."""
        if self._pipeline is not None:
            loss = self._pipeline.step(batch)
            self._schedule.after_step()
            return loss
        return train_step(self.model, self._optimizers, self._schedule, batch)

    def sync_replicas(self) -> None:
        """See the contract: a sync that comes early, unless the last step ended with one."""
        self._schedule.catch_up()

    def checkpoint_state(self) -> State:
        """See the contract. Moments that wait for the next sync are ``pending.<name>``."""
        waiting = {id(state): mean for state, mean in self._sync.waiting()}
        pending = self._state_blocks("pending", lambda state: waiting.get(id(state)))
        return {**super().checkpoint_state(), **pending}

    def held_tensors(self) -> Mapping[Category, Sequence[torch.Tensor]]:
        """See the contract. Moments that wait for the next sync are optimizer state too."""
        held = super().held_tensors()
        waiting = [mean for _, mean in self._sync.waiting()]
        return {**held, "embedding_optimizer_state": [*held["embedding_optimizer_state"], *waiting]}
