"""The sharding plan: made once for ONE sharding group of N ranks, then moved onto a group's global ranks.

Every group holds a full copy of the tables, so the plan for one group is the plan for all. It must be
made for N ranks and never for T: a plan over T ranks would place shards on ranks that this group cannot
reach with its all-to-all.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import nn
from torch.distributed import _remote_device
from torchrec.distributed.comm import get_local_size
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.sharding_plan import (
    ParameterShardingGenerator,
    column_wise,
    construct_module_sharding_plan,
    row_wise,
    table_wise,
)
from torchrec.distributed.types import EmbeddingModuleShardingPlan, ModuleSharder, ShardingPlan
from torchrec.modules.embedding_configs import BaseEmbeddingConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection

from reference_impl.errors import InvalidConfiguration
from reference_impl.layout import RankLayout

ShardingType = Literal["table_wise", "row_wise", "column_wise"]


#: TorchRec's modules that hold tables: one vector a bag of ids, or one vector an id (unpooled).
Collection: TypeAlias = EmbeddingBagCollection | EmbeddingCollection


def embedding_collections(model: nn.Module) -> dict[str, Collection]:
    """The collections of an unsharded model, by module path."""
    return {path: m for path, m in model.named_modules() if isinstance(m, Collection)}


def table_configs(collection: Collection) -> Sequence[BaseEmbeddingConfig]:
    """The tables of a collection of either kind."""
    if isinstance(collection, EmbeddingBagCollection):
        return collection.embedding_bag_configs()
    return collection.embedding_configs()


def table_sharders(fused_params: dict[str, Any]) -> list[ModuleSharder[nn.Module]]:
    """What shards the collections of either kind, with the optimizer of their tables."""
    return [
        EmbeddingBagCollectionSharder(fused_params=fused_params),
        EmbeddingCollectionSharder(fused_params=fused_params),
    ]


def plan_one_group(
    model: nn.Module,
    sharding: Mapping[str, ShardingType],
    layout: RankLayout,
    device: torch.device,
) -> ShardingPlan:
    """A plan for one sharding group of N ranks, numbered 0 to N - 1.

    Row-wise tables are split evenly over the N ranks. Table-wise tables, and the equal column shards of
    column-wise ones (``RankLayout.column_shards``), go, largest first, to the rank that holds the fewest
    bytes of them so far.

    Args:
        model: unsharded; its tables may be on the meta device.
        sharding: the sharding type of every table, by table name.
        layout: decides N and the column split.
        device: names the placement's device type.
    """
    collections = embedding_collections(model)
    # The fused kernel is asked for by name: TorchRec's helpers would choose the dense one on CPU, whose
    # gradients are materialised and whose optimizer is not FBGEMM's.
    kernel = EmbeddingComputeKernel.FUSED.value
    configs = [c for collection in collections.values() for c in table_configs(collection)]
    pieces = {
        c.name: layout.column_shards(c.embedding_dim) if sharding[c.name] == "column_wise" else 1
        for c in configs
        if sharding[c.name] != "row_wise"
    }
    owner = _largest_first(
        {
            (c.name, piece): c.num_embeddings * c.embedding_dim // pieces[c.name]
            for c in configs
            for piece in range(pieces.get(c.name, 0))
        },
        layout.group_size,
    )

    def placed(table: str) -> ParameterShardingGenerator:
        if sharding[table] == "row_wise":
            return row_wise(compute_kernel=kernel)
        ranks = [owner[table, piece] for piece in range(pieces[table])]
        if sharding[table] == "table_wise":
            return table_wise(rank=ranks[0], compute_kernel=kernel)
        return column_wise(ranks=ranks, compute_kernel=kernel)

    plan: dict[str, EmbeddingModuleShardingPlan] = {}
    for path, collection in collections.items():
        plan[path] = construct_module_sharding_plan(
            collection,
            {config.name: placed(config.name) for config in table_configs(collection)},
            local_size=layout.group_size,
            world_size=layout.group_size,
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


def _largest_first(sizes: Mapping[tuple[str, int], int], group_size: int) -> dict[tuple[str, int], int]:
    """Piece (table, number) to position in the group. Ties go by name, so that every rank finds the same."""
    load = [0] * group_size
    owner = {}
    for piece in sorted(sizes, key=lambda p: (-sizes[p], p)):
        owner[piece] = min(range(group_size), key=lambda position: load[position])
        load[owner[piece]] += sizes[piece]
    return owner
