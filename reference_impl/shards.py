"""The table shards that one rank holds, found inside TorchRec's sharded modules.

TorchRec groups a rank's tables into FBGEMM table-batched embedding (TBE) modules; each exposes views of
its weights and of the fused optimizer's state, which is what must be averaged between replicas.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchrec.distributed.embeddingbag import ShardedEmbeddingBagCollection

from reference_impl.data_parallel import data_parallel_tables


@dataclass(frozen=True)
class TableShard:
    """A block of one table.

    Attributes:
        table: the table's name.
        rows: rows of the whole table.
        row_offset, column_offset: where the block starts in the table.
        weight: view of FBGEMM's storage, shape [block rows, block columns].
        moments: the optimizer's row-wise second moments, shape [block rows]; None for SGD.
        on_all_ranks: every rank of the group has this block: a data-parallel table.
    """

    table: str
    rows: int
    row_offset: int
    column_offset: int
    weight: torch.Tensor
    moments: torch.Tensor | None
    on_all_ranks: bool = False


def local_shards(model: nn.Module, unfused: torch.optim.Optimizer | None = None) -> list[TableShard]:
    """The shards of this rank, in an order that is the same on all ranks of a replica set.

    Args:
        model: sharded.
        unfused: of its data-parallel tables, if it has any.
    """
    found = []
    for module in model.modules():
        if not isinstance(module, ShardedEmbeddingBagCollection):
            continue
        for lookup in module._lookups:
            if isinstance(lookup, DistributedDataParallel):
                continue
            for kernel in lookup._emb_modules:
                tbe = kernel.emb_module
                states = tbe.split_optimizer_states()
                for i, (config, weight) in enumerate(
                    zip(kernel.config.embedding_tables, tbe.split_embedding_weights(), strict=True)
                ):
                    row, column = config.local_metadata.shard_offsets
                    moments = states[i][0] if states else None
                    found.append(TableShard(config.name, config.num_embeddings, row, column, weight, moments))
    for table, weight in data_parallel_tables(model):
        sums = unfused.state[weight].get("sum") if unfused is not None else None
        moments = None if sums is None else sums.view(-1)
        found.append(TableShard(table, len(weight), 0, 0, weight, moments, on_all_ranks=True))
    return found


def gather_tables(
    shards: list[TableShard], group: dist.ProcessGroup
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Whole tables and their row-wise moments, on the CPU of every rank of the group. Collective.

    Returns:
        Weights [rows, dim] by table, and moments by table (none for SGD): [rows], or [rows, C] where the
        table's columns are cut into C > 1 shards, each with moments of its own.
    """
    mine = [
        (
            s.table,
            s.row_offset,
            s.column_offset,
            s.weight.detach().cpu().clone(),
            None if s.moments is None else s.moments.detach().cpu().clone(),
        )
        for s in shards
        if not s.on_all_ranks or dist.get_rank(group) == 0
    ]
    everyone: list[list] = [[] for _ in range(dist.get_world_size(group))]
    dist.all_gather_object(everyone, mine, group=group)
    blocks: dict[str, list] = {}
    for block in (block for rank in everyone for block in rank):
        blocks.setdefault(block[0], []).append(block)
    weights, moments = {}, {}
    for table, parts in blocks.items():
        parts.sort(key=lambda block: block[1])
        # All blocks that start at one column, from the first row to the last.
        strips = [[b for b in parts if b[2] == column] for column in sorted({b[2] for b in parts})]
        weights[table] = torch.cat([torch.cat([b[3] for b in strip]) for strip in strips], dim=1)
        if parts[0][4] is not None:
            of_strips = [torch.cat([b[4].reshape(-1) for b in strip]) for strip in strips]
            moments[table] = of_strips[0] if len(strips) == 1 else torch.stack(of_strips, dim=1)
    return weights, moments
