"""The sharding plan: made once for ONE sharding group of N ranks, then moved onto a group's global ranks.

Every group holds a full copy of the tables, so the plan for one group is the plan for all. It must be
made for N ranks and never for T: a plan over T ranks would place shards on ranks that this group cannot
reach with its all-to-all.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Literal

import torch
from torch import nn
from torch.distributed import _remote_device
from torchrec.distributed.comm import get_local_size
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.sharding_plan import construct_module_sharding_plan, row_wise, table_wise
from torchrec.distributed.types import EmbeddingModuleShardingPlan, ShardingPlan
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from reference_impl.errors import InvalidConfiguration
from reference_impl.layout import RankLayout

ShardingType = Literal["table_wise", "row_wise"]


def embedding_collections(model: nn.Module) -> dict[str, EmbeddingBagCollection]:
    """The EmbeddingBagCollections of an unsharded model, by module path."""
    return {path: m for path, m in model.named_modules() if isinstance(m, EmbeddingBagCollection)}


def plan_one_group(
    model: nn.Module,
    sharding: Mapping[str, ShardingType],
    group_size: int,
    sharder: EmbeddingBagCollectionSharder,
    device: torch.device,
) -> ShardingPlan:
    """A plan for one sharding group of N ranks, numbered 0 to N - 1.

    Row-wise tables are split evenly over the N ranks. Table-wise tables go, largest first, to the rank
    that holds the fewest bytes so far.

    Args:
        model: unsharded; its tables may be on the meta device.
        sharding: the sharding type of every table, by table name.
        group_size: N.
        sharder: decides which parameters can be sharded.
        device: names the placement's device type.
    """
    collections = embedding_collections(model)
    # The fused kernel is asked for by name: TorchRec's helpers would choose the dense one on CPU, whose
    # gradients are materialised and whose optimizer is not FBGEMM's.
    kernel = EmbeddingComputeKernel.FUSED.value
    owner = _largest_first(
        {
            config.name: config.num_embeddings * config.embedding_dim
            for collection in collections.values()
            for config in collection.embedding_bag_configs()
            if sharding[config.name] == "table_wise"
        },
        group_size,
    )
    plan: dict[str, EmbeddingModuleShardingPlan] = {}
    for path, collection in collections.items():
        plan[path] = construct_module_sharding_plan(
            collection,
            {
                config.name: row_wise(compute_kernel=kernel)
                if sharding[config.name] == "row_wise"
                else table_wise(rank=owner[config.name], compute_kernel=kernel)
                for config in collection.embedding_bag_configs()
            },
            sharder=sharder,
            local_size=group_size,
            world_size=group_size,
            device_type=device.type,
        )
    return ShardingPlan(plan)


def move_to_group(plan: ShardingPlan, layout: RankLayout, group: int, device: torch.device) -> ShardingPlan:
    """The same plan with the N positions replaced by the global ranks of one replica group.

    On an accelerator a shard's device is its rank's own: rank modulo the ranks per host, as torchrun
    numbers them (LOCAL_WORLD_SIZE).

    Raises:
        InvalidConfiguration: the plan places a shard outside [0, N), as a plan made for T ranks does.
    """
    ranks = layout.sharding_group(group)
    ranks_per_host = get_local_size(layout.world_size)
    moved = copy.deepcopy(plan)
    for module_plan in moved.plan.values():
        assert isinstance(module_plan, EmbeddingModuleShardingPlan)
        for table, sharding in module_plan.items():
            outside = sorted({p for p in sharding.ranks or [] if p >= layout.group_size})
            if outside:
                raise InvalidConfiguration(
                    f"plan.{table}.ranks",
                    outside,
                    f"the plan reaches past the {layout.group_size} ranks of one sharding group.",
                    f"Plan for N = T / M = {layout.group_size} ranks, not for T = {layout.world_size}.",
                )
            sharding.ranks = [ranks[position] for position in sharding.ranks or []]
            for shard in sharding.sharding_spec.shards:
                rank = ranks[shard.placement.rank()]
                # On CPU no device index: FBGEMM's optimizer wrapper refuses "cpu:0".
                where = "cpu" if device.type == "cpu" else f"{device.type}:{rank % ranks_per_host}"
                shard.placement = _remote_device(f"rank:{rank}/{where}")
    return moved


def _largest_first(sizes: Mapping[str, int], group_size: int) -> dict[str, int]:
    """Table name to position in the group. Ties go by name, so that every rank finds the same answer."""
    load = [0] * group_size
    owner = {}
    for name in sorted(sizes, key=lambda n: (-sizes[n], n)):
        owner[name] = min(range(group_size), key=lambda position: load[position])
        load[owner[name]] += sizes[name]
    return owner
