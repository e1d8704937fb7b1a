"""From a model and a layout to a sharded, data-parallel model: the same call for 1D and 2D.

What happens, and where:

    1. plan one sharding group of N ranks          plan.py by hand, planner.py by TorchRec's planner
    2. pool mixed means by sum and length          mean_pooling.py
    3. move the plan onto this rank's own group    plan.py
    4. shard the tables inside the group           TorchRec's DistributedModelParallel
    5. replicate the dense layers over all T       the same, by DistributedDataParallel
    6. replicate small tables inside the group     data_parallel.py
    7. fill the tables, equal in every group       initial_weights.py, optimizer.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.types import ShardingPlan

from reference_impl import initial_weights
from reference_impl.data_parallel import average_inside, data_parallel_tables, unfused
from reference_impl.exchange import ExchangeDtype, codecs
from reference_impl.groups import ProcessGroups
from reference_impl.hosts import split_over_hosts
from reference_impl.mean_pooling import divide_mixed_means
from reference_impl.optimizer import EmbeddingOptimizer
from reference_impl.plan import OVER_HOSTS, move_to_group, plan_for, sharding_types, table_sharders
from reference_impl.shards import TableShard, local_shards


@dataclass(frozen=True)
class ShardedModel:
    """A sharded model and what trains its tables.

    Attributes:
        module: its forward is the model's own.
        shards: of this rank.
        unfused: the optimizer of data-parallel tables, which its owner steps; None where there are none.
    """

    module: DistributedModelParallel
    shards: list[TableShard]
    unfused: torch.optim.Optimizer | None


def shard_model(
    model: nn.Module,
    groups: ProcessGroups,
    plan: ShardingPlan,
    optimizer: EmbeddingOptimizer,
    seed: int,
    device: torch.device,
    exchange: ExchangeDtype = "fp32",
) -> ShardedModel:
    """Shards a model's tables inside this rank's group and replicates its dense layers over all ranks.

    TorchRec divides embedding gradients by the sharding group's size N, and the loss carries T / G
    (see ``Batch``), so each group applies the mean gradient of its own share of the global batch.
    The dense layers' gradients are averaged over all T ranks, in 1D and 2D alike.

    Args:
        model: its tables (EmbeddingBagCollections, EmbeddingCollections) on the meta device, the rest on
            ``device``.
        groups: of this rank.
        plan: of one sharding group, made for this model.
        optimizer: of the tables, fused into their backward where they are not data-parallel.
        seed: of the initial table weights.
        device: where the shards live.
        exchange: in what precision pooled vectors travel.
    """
    layout, kinds = groups.layout, sharding_types(plan)
    divide_mixed_means(model, kinds)
    if any(kind in OVER_HOSTS for kind in kinds.values()):
        split_over_hosts(groups)
    module = DistributedModelParallel(
        model,
        env=groups.env,
        device=device,
        plan=move_to_group(plan_for(model, plan), layout, layout.group_of(groups.rank), device),
        sharders=table_sharders(optimizer.fused_params(), codecs(exchange, device)),
        init_parameters=False,
    )
    tables = [weight for _, weight in data_parallel_tables(module)]
    if tables and groups.replica is not None:
        average_inside(module, groups.sharding)
    rest = unfused(optimizer, tables) if tables else None
    shards = local_shards(module, rest)
    start_(shards, optimizer, seed)
    return ShardedModel(module, shards, rest)


def start_(shards: Sequence[TableShard], optimizer: EmbeddingOptimizer, seed: int) -> None:
    """Puts this rank's shards and their optimizer states before the first step, equal in every group."""
    for shard in shards:
        initial_weights.fill_(
            shard.weight.detach(), seed, shard.table, shard.rows, shard.row_offset, shard.column_offset
        )
        optimizer.start_(shard.states)
