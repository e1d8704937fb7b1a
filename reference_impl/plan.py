"""The sharding plan: made once for ONE sharding group of N ranks, then moved onto a group's global ranks.

Every group holds a full copy of the tables, so the plan for one group is the plan for all. It must be
made for N ranks and never for T: a plan over T ranks would place shards on ranks that this group cannot
reach with its all-to-all.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import torch
from torch import nn
from torch.distributed import _remote_device
from torchrec.distributed.comm import get_local_size
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.types import (
    EmbeddingModuleShardingPlan,
    EnumerableShardingSpec,
    ModuleSharder,
    ParameterSharding,
    QuantizedCommCodecs,
    ShardingPlan,
    ShardMetadata,
)
from torchrec.modules.embedding_configs import BaseEmbeddingConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection

from reference_impl.errors import InvalidConfiguration
from reference_impl.layout import RankLayout

ShardingType = Literal["table_wise", "row_wise", "column_wise", "table_row_wise", "grid", "data_parallel"]
#: Where TorchRec has another word.
TORCHREC_NAMES: Mapping[ShardingType, str] = {"grid": "grid_shard"}
#: The types that split rows over the ranks of one host.
OVER_HOSTS: tuple[ShardingType, ...] = ("table_row_wise", "grid")


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


def table_sharders(
    fused_params: dict[str, Any], codecs: dict[str, QuantizedCommCodecs] | None = None
) -> list[ModuleSharder[nn.Module]]:
    """What shards the collections of either kind, with the optimizer of their tables and their exchange."""
    # Stochastic rounding, FBGEMM's default for fp16 tables, would not repeat.
    fused_params = fused_params | {"stochastic_rounding": False}
    return [
        EmbeddingBagCollectionSharder(fused_params=fused_params, qcomm_codecs_registry=codecs),
        EmbeddingCollectionSharder(fused_params=fused_params, qcomm_codecs_registry=codecs),
    ]


def plan_one_group(
    model: nn.Module, sharding: Mapping[str, ShardingType], layout: RankLayout, device: torch.device
) -> ShardingPlan:
    """A plan by hand for one sharding group of N ranks, numbered 0 to N - 1.

    Row-wise tables are split evenly over the N ranks, and data-parallel ones are on each. The others consist
    of pieces. A table-wise table is one, a column-wise one is ``RankLayout.column_shards`` equal column
    shards; each goes to a rank. A table-row-wise table is one, a grid table ``RankLayout.grid_columns``
    column shards; each goes to a host (those of a grid table to unlike ones), whose ranks split its rows.
    Largest first, a piece goes where the fewest bytes of pieces are so far.

    Args:
        model: unsharded; its tables may be on the meta device.
        sharding: the sharding type of every table, by table name.
        layout: decides N, the hosts and the column split.
        device: names the placement's device type.
    """
    collections = embedding_collections(model)
    configs = {c.name: c for collection in collections.values() for c in table_configs(collection)}
    columns = {name: column_shards(sharding[name], c.embedding_dim, layout) for name, c in configs.items()}
    pieces = {
        (name, piece): _Piece(
            c.num_embeddings * c.embedding_dim // columns[name],
            layout.group_hosts
            if sharding[name] in OVER_HOSTS
            else tuple((i,) for i in range(layout.group_size)),
            apart=sharding[name] == "grid",
        )
        for name, c in configs.items()
        if sharding[name] not in ("row_wise", "data_parallel")
        for piece in range(columns[name])
    }
    owners = _largest_first(pieces, layout.group_size)

    def ranks_of(table: str, piece: int) -> tuple[int, ...]:
        return owners.get((table, piece), tuple(range(layout.group_size)))

    return ShardingPlan(
        {
            path: EmbeddingModuleShardingPlan(
                {
                    c.name: _table_plan(
                        c,
                        sharding[c.name],
                        [ranks_of(c.name, piece) for piece in range(columns[c.name])],
                        device,
                    )
                    for c in table_configs(collection)
                }
            )
            for path, collection in collections.items()
        }
    )


def plan_for(model: nn.Module, plan: ShardingPlan) -> ShardingPlan:
    """The same plans of tables, under the paths that their collections have in ``model`` now."""
    tables = plan_of_tables(plan)
    return ShardingPlan(
        {
            path: EmbeddingModuleShardingPlan({c.name: tables[c.name] for c in table_configs(collection)})
            for path, collection in embedding_collections(model).items()
        }
    )


def plan_of_tables(plan: ShardingPlan) -> dict[str, ParameterSharding]:
    """The plan of each table, by table name."""
    found: dict[str, ParameterSharding] = {}
    for module_plan in plan.plan.values():
        assert isinstance(module_plan, EmbeddingModuleShardingPlan)
        found.update(module_plan)
    return found


def sharding_types(plan: ShardingPlan) -> dict[str, ShardingType]:
    """The sharding type of each table, by table name."""
    ours = {theirs: name for name, theirs in TORCHREC_NAMES.items()}
    kinds = {name: table.sharding_type for name, table in plan_of_tables(plan).items()}
    return {name: cast(ShardingType, ours.get(kind, kind)) for name, kind in kinds.items()}


def column_shards(sharding: ShardingType, dim: int, layout: RankLayout) -> int:
    """C, into how many column shards a hand-made plan cuts a table of ``dim`` columns."""
    if sharding == "column_wise":
        return layout.column_shards(dim)
    return layout.grid_columns(dim) if sharding == "grid" else 1


def _table_plan(
    config: BaseEmbeddingConfig,
    sharding: ShardingType,
    ranks: Sequence[tuple[int, ...]],
    device: torch.device,
) -> ParameterSharding:
    """Column shard i is split over ``ranks[i]``: ceil(rows / ranks) rows each, as TorchRec looks them up."""
    kind = TORCHREC_NAMES.get(sharding, sharding)
    everyone = [rank for owners in ranks for rank in owners]
    if sharding == "data_parallel":
        return ParameterSharding(kind, EmbeddingComputeKernel.DENSE.value, everyone, None)
    width = config.embedding_dim // len(ranks)
    shards = []
    for column, owners in enumerate(ranks):
        height = -(-config.num_embeddings // len(owners))
        for row, rank in enumerate(owners):
            first = min(row * height, config.num_embeddings)
            last = min(first + height, config.num_embeddings)
            where = _remote_device(f"rank:{rank}/{device.type}")
            shards.append(ShardMetadata([first, column * width], [last - first, width], where))
    # The fused kernel by name: TorchRec's own choice on CPU would be the dense one, whose gradients are
    # materialised and whose optimizer is not FBGEMM's.
    fused = EmbeddingComputeKernel.FUSED.value
    return ParameterSharding(kind, fused, everyone, EnumerableShardingSpec(shards))


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
    for table, sharding in plan_of_tables(moved).items():
        outside = sorted({p for p in sharding.ranks or [] if p >= layout.group_size})
        if outside:
            raise InvalidConfiguration(
                f"plan.{table}.ranks",
                outside,
                f"the plan reaches past the {layout.group_size} ranks of one sharding group.",
                f"Plan for N = T / M = {layout.group_size} ranks, not for T = {layout.world_size}.",
            )
        sharding.ranks = [ranks[position] for position in sharding.ranks or []]
        # A data-parallel table has no shards.
        for shard in sharding.sharding_spec.shards if sharding.sharding_spec else ():
            rank = ranks[shard.placement.rank()]
            # On CPU no device index: FBGEMM's optimizer wrapper refuses "cpu:0".
            where = "cpu" if device.type == "cpu" else f"{device.type}:{rank % ranks_per_host}"
            shard.placement = _remote_device(f"rank:{rank}/{where}")
    return moved


class _Piece(NamedTuple):
    """What is placed as one: its size, and the sets of positions it may go to."""

    size: int
    candidates: tuple[tuple[int, ...], ...]
    #: Not where another piece of the table is.
    apart: bool


def _largest_first(
    pieces: Mapping[tuple[str, int], _Piece], group_size: int
) -> dict[tuple[str, int], tuple[int, ...]]:
    """Piece (table, number) to positions in the group. Ties go by name, so that every rank finds the same."""
    load = [Fraction(0)] * group_size
    owner: dict[tuple[str, int], tuple[int, ...]] = {}
    for key in sorted(pieces, key=lambda p: (-pieces[p].size, p)):
        size, candidates, apart = pieces[key]
        taken = {owner[piece] for piece in owner if apart and piece[0] == key[0]}
        owner[key] = min((c for c in candidates if c not in taken), key=lambda c: sum(load[i] for i in c))
        for position in owner[key]:
            load[position] += Fraction(size, len(owner[key]))
    return owner
