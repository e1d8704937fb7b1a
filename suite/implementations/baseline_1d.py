"""TorchRec's own 1D: DistributedModelParallel over all T ranks, with TorchRec's optimizers and train loop.

It is sharded by ``reference_impl``'s M = 1: TorchRec's module, a plan and initial tables, so that what is
compared is the same training; nothing of the 2D machinery is in its step.
"""

from __future__ import annotations

from datetime import timedelta

import torch
from torch import nn
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper

from reference_impl.batch import Batch
from reference_impl.groups import make_groups
from reference_impl.ranges import backward, component
from reference_impl.sharded_model import shard_model
from suite.errors import ConfigError
from suite.implementations.planning import sharding_plan
from suite.implementations.sharded import (
    ShardedImplementation,
    dense_optimizer,
    dense_parameters,
    embedding_optimizer,
)
from suite.spec import RunSpec


class Baseline1D(ShardedImplementation):
    """All T ranks are one sharding group."""

    @classmethod
    def check(cls, run: RunSpec) -> None:
        """Refuses more than one replica group."""
        super().check(run)
        if run.layout.replica_groups != 1:
            raise ConfigError(
                "layout.replica_groups",
                run.layout.replica_groups,
                "baseline_1d has one sharding group.",
                "Use --replica-groups 1, or --implementation reference_2d.",
            )

    def __init__(self, run: RunSpec, device: torch.device) -> None:
        groups = make_groups(run.layout.ranks(), device, timedelta(seconds=run.stall_timeout_s))
        model = self._trainable(run, device)
        plan = sharding_plan(run, model, device)
        sharded = shard_model(
            model, groups, plan, embedding_optimizer(run), run.seed, device, run.exchange_dtype
        )
        dense = KeyedOptimizerWrapper(
            dense_parameters(sharded.module),
            lambda parameters: dense_optimizer(run.optimizer.dense, parameters),
        )
        self._adopt(run, sharded, plan, dense, groups.sharding)
        self._optimizers: list[torch.optim.Optimizer] = [
            CombinedOptimizer([sharded.module.fused_optimizer, dense])
        ]
        if sharded.unfused is not None:
            self._optimizers.append(sharded.unfused)
        self._enter_pipeline(run, self._optimizers, device)

    def train_step(self, batch: Batch) -> torch.Tensor:
        """See the contract."""
        if self._pipeline is not None:
            return self._pipeline.step(batch)
        with component("dense_optimizer"):
            for optimizer in self._optimizers:
                optimizer.zero_grad()
        with component("dense_forward"):
            logits = batch.logits_of(self.model(batch.dense, batch.sparse))
            loss = batch.loss_scale * nn.functional.binary_cross_entropy_with_logits(
                logits, batch.labels, reduction="sum"
            )
        backward(loss)
        with component("dense_optimizer"):
            for optimizer in self._optimizers:
                optimizer.step()
        return loss.detach()

    def sync_replicas(self) -> None:
        """See the contract: there is one copy."""
