"""A plan by TorchRec's own planner, for one sharding group.

It proposes sharding types and ranks and rates them by a model of GPUs and their network (bytes over
bandwidth, at TorchRec's constants). On CPU the plan is therefore the one that GPUs would get: told that the
devices are CPUs, the planner would not offer row-wise at all. It knows nothing of replicas.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.proposers import GreedyProposer, UniformProposer
from torchrec.distributed.planner.stats import NoopEmbeddingStats
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from torchrec.distributed.planner.types import ParameterConstraints, PlannerError
from torchrec.distributed.types import ShardingPlan
from torchrec.modules.embedding_configs import BaseEmbeddingConfig, DataType, EmbeddingBagConfig

from reference_impl.errors import InvalidConfiguration
from reference_impl.layout import RankLayout, leaves_none_empty
from reference_impl.plan import (
    TORCHREC_NAMES,
    ShardingType,
    column_shards,
    embedding_collections,
    table_configs,
    table_sharders,
)

#: Of the memory, for all that is not sharded.
_RESERVED = 0.15


def plan_by_planner(
    model: nn.Module,
    fixed: Mapping[str, ShardingType],
    pooling_factors: Mapping[str, float],
    layout: RankLayout,
    batch_per_rank: int,
    memory_bytes: int,
) -> ShardingPlan:
    """The plan that the planner rates best, for the N ranks of a group, numbered 0 to N - 1.

    It chooses among all types but grid, which it rates as one would have it on many hosts; columns are cut
    as by hand. The same arguments give the same plan: nothing is cut short by a clock.

    Args:
        model: unsharded; its tables may be on the meta device.
        fixed: the sharding type of those tables that the planner only places.
        pooling_factors: by table, ids that a feature holds per sample.
        layout: decides N, the hosts and the column split.
        batch_per_rank: samples a rank takes a step.
        memory_bytes: of a rank's device.

    Raises:
        InvalidConfiguration: there is no such plan.
    """
    constraints = {
        c.name: ParameterConstraints(
            sharding_types=[TORCHREC_NAMES.get(kind, kind) for kind in kinds],
            # Fused wherever FBGEMM has it, and no table outside the device's memory.
            compute_kernels=["fused", "dense"],
            min_partition=c.embedding_dim
            // column_shards("grid" if kinds == ["grid"] else "column_wise", c.embedding_dim, layout),
            pooling_factors=[pooling_factors[c.name]] * len(c.feature_names),
        )
        for collection in embedding_collections(model).values()
        for c in table_configs(collection)
        for kinds in [[fixed[c.name]] if c.name in fixed else _offered(c, layout)]
    }
    planner = EmbeddingShardingPlanner(
        topology=Topology(
            world_size=layout.group_size,
            local_world_size=layout.group_ranks_per_host,
            compute_device="cuda",
            hbm_cap=memory_bytes,
        ),
        batch_size=batch_per_rank,
        constraints=constraints,
        # Without the one that tries whole products of options: its time has no bound worth the name.
        proposer=[GreedyProposer(), GreedyProposer(use_depth=False), UniformProposer()],
        storage_reservation=FixedPercentageStorageReservation(_RESERVED),
        stats=NoopEmbeddingStats(),
        debug=False,
    )
    try:
        return planner.plan(model, table_sharders({}))
    except PlannerError as error:
        raise InvalidConfiguration(
            "layout.sharding",
            "planned",
            f"TorchRec's planner found no plan for {layout.group_size} ranks of {memory_bytes:,} bytes "
            f"({error.error_type.value}).",
            "Name fewer tables' types, use more ranks or fewer replica groups, or shard by hand.",
        ) from error


def _offered(table: BaseEmbeddingConfig, layout: RankLayout) -> list[ShardingType]:
    """The types to choose from for a table; those that split rows only where no rank is left without."""
    kinds: list[ShardingType] = ["table_wise", "column_wise"]
    pooled = isinstance(table, EmbeddingBagConfig)
    if pooled and table.data_type is DataType.FP32:  # the moments of a data-parallel table have its dtype
        kinds.append("data_parallel")
    splits: dict[ShardingType, int] = {"row_wise": layout.group_size}
    if pooled and 1 < layout.group_ranks_per_host < layout.group_size:
        splits["table_row_wise"] = layout.group_ranks_per_host
    return kinds + [kind for kind, ranks in splits.items() if leaves_none_empty(table.num_embeddings, ranks)]
