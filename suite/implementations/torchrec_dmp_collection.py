"""TorchRec's own 2D, DMPCollection, behind the contract: on CUDA only, for it asserts that.

It plans, starts and steps as ``reference_2d`` does; the groups, the moving of the plan onto a group's ranks
and the sync are TorchRec's. Which ranks form a group follows ``use_inter_host_allreduce``, its name for the
contiguous placement. Its other sharding strategy, FULLY_SHARDED, is not offered: it cannot be run without a
GPU, and as its source reads it trains something else (docs/sharding.md).
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torchrec.distributed.model_parallel import DMPCollection

from reference_impl.batch import Batch
from reference_impl.mean_pooling import divide_mixed_means
from reference_impl.plan import plan_for, sharding_types, table_sharders
from reference_impl.sharded_model import ShardedModel, start_
from reference_impl.shards import local_shards
from reference_impl.sync.contract import ReplicaSync
from reference_impl.sync.schedule import Schedule
from reference_impl.train_step import train_step
from suite.errors import ConfigError
from suite.implementations.model import build_model
from suite.implementations.planning import sharding_plan
from suite.implementations.sharded import (
    ShardedImplementation,
    dense_optimizer,
    dense_parameters,
    embedding_optimizer,
)
from suite.spec import RunSpec


class TorchRecDMPCollection(ShardedImplementation):
    """M > 1 groups, averaged by ``DMPCollection.sync``: weights and moments, after every k-th step."""

    @classmethod
    def check(cls, run: RunSpec) -> None:
        """Refuses CPU, 1D, and what DMPCollection does not offer."""
        super().check(run)
        if run.device != "cuda":
            raise ConfigError(
                "device",
                run.device,
                "TorchRec's DMPCollection asserts CUDA.",
                "Use --device cuda, or --implementation reference_2d, which is the same training.",
            )
        cls.check_offered(run)

    @classmethod
    def check_offered(cls, run: RunSpec) -> None:
        """Refuses what DMPCollection does not offer on any device."""
        if run.layout.replica_groups == 1:
            raise ConfigError(
                "layout.replica_groups",
                1,
                "DMPCollection is 2D.",
                "Use --replica-groups 2 or more, or --implementation baseline_1d.",
            )
        if run.optimizer.name == "sgd":
            raise ConfigError(
                "optimizer.name",
                run.optimizer.name,
                "DMPCollection looks for an optimizer state to average, and SGD has none.",
                "Use rowwise_adagrad, or --implementation reference_2d.",
            )
        if run.sync_optimizer_state != "immediate":
            raise ConfigError(
                "sync_optimizer_state",
                run.sync_optimizer_state,
                "DMPCollection averages weights and optimizer state together.",
                "Leave it out, or use --implementation reference_2d.",
            )

        for field, value, plain in (
            ("exchange_dtype", run.exchange_dtype, "fp32"),
            ("pipeline", run.pipeline, "none"),
        ):
            if value != plain:
                raise ConfigError(
                    field,
                    value,
                    "it was never checked under DMPCollection.",
                    f"Use {plain}, or --implementation reference_2d.",
                )
        for table in run.workload.tables:
            sharding = run.layout.sharding_of(table.name)
            if sharding not in ("table_wise", "row_wise", "column_wise"):
                raise ConfigError(
                    f"layout.sharding.{table.name}",
                    sharding,
                    "it was never checked under DMPCollection.",
                    "Use table_wise, row_wise or column_wise, or --implementation reference_2d.",
                )

    def __init__(self, run: RunSpec, device: torch.device) -> None:
        world = dist.group.WORLD
        assert world is not None  # the contract: the default process group is initialised
        layout = run.layout.ranks()
        model = build_model(run.workload, run.seed, device)
        optimizer = embedding_optimizer(run)
        plan = sharding_plan(run, model, device)
        divide_mixed_means(model, sharding_types(plan))
        sharded = DMPCollection(
            model,
            device,
            plan=plan_for(model, plan),
            world_size=layout.world_size,
            sharding_group_size=layout.group_size,
            global_pg=world,
            sharders=table_sharders(optimizer.fused_params()),
            init_parameters=False,
            use_inter_host_allreduce=layout.placement == "contiguous",
        )
        shards = local_shards(sharded)
        start_(shards, optimizer, run.seed)
        dense = dense_optimizer(run.optimizer.dense, dense_parameters(sharded).values())
        self._adopt(
            run, ShardedModel(sharded, shards, None), plan, dense, sharded.device_mesh.get_group("shard")
        )
        self._enter_pipeline(run, [dense], device)
        self._schedule = Schedule(_Sync(sharded), run.sync_interval)

    def train_step(self, batch: Batch) -> torch.Tensor:
        """See the contract."""
        return train_step(self.model, [self.dense_optimizer], self._schedule, batch)

    def sync_replicas(self) -> None:
        """See the contract."""
        self._schedule.catch_up()


class _Sync(ReplicaSync):
    """What DMPCollection does at a sync."""

    def __init__(self, model: DMPCollection) -> None:
        self._model = model

    def average(self) -> None:
        """See the contract."""
        self._model.sync()
