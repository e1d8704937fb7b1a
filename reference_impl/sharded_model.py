"""From a model and a layout to a sharded, data-parallel model: the same call for 1D and 2D.

What happens, and where:

    1. pool mixed means by sum and length          mean_pooling.py
    2. plan one sharding group of N ranks          plan.py
    3. move the plan onto this rank's own group    plan.py
    4. shard the tables inside the group           TorchRec's DistributedModelParallel
    5. replicate the dense layers over all T       the same, by DistributedDataParallel
    6. fill the tables, equal in every group       initial_weights.py, optimizer.py
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torchrec.distributed.model_parallel import DistributedModelParallel

from reference_impl import initial_weights
from reference_impl.groups import ProcessGroups
from reference_impl.mean_pooling import divide_mixed_means
from reference_impl.optimizer import EmbeddingOptimizer
from reference_impl.plan import ShardingType, move_to_group, plan_one_group, table_sharders
from reference_impl.shards import local_shards


def shard_model(
    model: nn.Module,
    groups: ProcessGroups,
    sharding: Mapping[str, ShardingType],
    optimizer: EmbeddingOptimizer,
    seed: int,
    device: torch.device,
) -> DistributedModelParallel:
    """Shards a model's tables inside this rank's group and replicates its dense layers over all ranks.

    TorchRec divides embedding gradients by the sharding group's size N, and the loss carries T / G
    (see ``Batch``), so each group applies the mean gradient of its own share of the global batch.
    The dense layers' gradients are averaged over all T ranks, in 1D and 2D alike.

    Args:
        model: its tables (EmbeddingBagCollections, EmbeddingCollections) on the meta device, the rest on
        ``device``. groups: of this rank. sharding: the sharding type of every table. optimizer: fused
        into the backward of the tables. seed: of the initial table weights. device: where the shards
        live.
    """
    layout = groups.layout
    divide_mixed_means(model, sharding)
    plan = plan_one_group(model, sharding, layout, device)
    sharded = DistributedModelParallel(
        model,
        env=groups.env,
        device=device,
        plan=move_to_group(plan, layout, layout.group_of(groups.rank), device),
        sharders=table_sharders(optimizer.fused_params()),
        init_parameters=False,
    )
    for shard in local_shards(sharded):
        initial_weights.fill_(
            shard.weight.detach(), seed, shard.table, shard.rows, shard.row_offset, shard.column_offset
        )
        optimizer.start_(shard.states)
    return sharded
