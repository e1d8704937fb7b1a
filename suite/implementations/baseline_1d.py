"""TorchRec's own 1D: DistributedModelParallel over all T ranks, with TorchRec's optimizers and train loop.

It uses the workload's model, the hand-made plan and the initial tables of ``reference_impl``, so that
what is compared is the same training; nothing of the 2D machinery is in its step.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.types import ShardingEnv
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper

from reference_impl import initial_weights
from reference_impl.batch import Batch
from reference_impl.mean_pooling import divide_mixed_means
from reference_impl.plan import move_to_group, plan_one_group
from reference_impl.ranges import backward, component
from suite.errors import ConfigError
from suite.implementations.model import build_model
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
        world = dist.group.WORLD
        assert world is not None  # the contract: the default process group is initialised
        model = build_model(run.workload, run.seed, device)
        sharder = EmbeddingBagCollectionSharder(fused_params=embedding_optimizer(run).fused_params())
        sharding = {t.name: run.layout.sharding_of(t.name) for t in run.workload.tables}
        divide_mixed_means(model, sharding)
        layout = run.layout.ranks()
        plan = plan_one_group(model, sharding, layout, sharder, device)
        sharded = DistributedModelParallel(
            model,
            env=ShardingEnv.from_process_group(world),
            device=device,
            plan=move_to_group(plan, layout, 0, device),
            sharders=[sharder],
            init_parameters=False,
        )
        wrapper = KeyedOptimizerWrapper(
            dense_parameters(sharded), lambda parameters: dense_optimizer(run.optimizer.dense, parameters)
        )
        self._optimizer = CombinedOptimizer([sharded.fused_optimizer, wrapper])
        self._adopt(sharded, wrapper, world)
        for shard in self.shards:
            initial_weights.fill_(
                shard.weight.detach(),
                run.seed,
                shard.table,
                shard.rows,
                shard.row_offset,
                shard.column_offset,
            )

    def train_step(self, batch: Batch) -> torch.Tensor:
        """See the contract."""
        with component("dense_optimizer"):
            self._optimizer.zero_grad()
        with component("dense_forward"):
            logits = batch.logits_of(self.model(batch.dense, batch.sparse))
            loss = batch.loss_scale * nn.functional.binary_cross_entropy_with_logits(
                logits, batch.labels, reduction="sum"
            )
        backward(loss)
        with component("dense_optimizer"):
            self._optimizer.step()
        return loss.detach()

    def sync_replicas(self) -> None:
        """See the contract: there is one copy."""
