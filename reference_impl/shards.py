"""The table shards that one rank holds, found inside TorchRec's sharded modules.

TorchRec groups a rank's tables into FBGEMM table-batched embedding (TBE) modules; each exposes views of
its weights and of the fused optimizer's state, which is what must be averaged between replicas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torchrec.distributed.embeddingbag import ShardedEmbeddingBagCollection


@dataclass(frozen=True)
class TableShard:
    """A block of one table.

    Attributes:
        table: the table's name.
        rows: rows of the whole table.
        row_offset, column_offset: where the block starts in the table.
        weight: view of FBGEMM's storage, shape [block rows, block columns].
        moments: the optimizer's row-wise second moments, shape [block rows]; None for SGD.
    """

    table: str
    rows: int
    row_offset: int
    column_offset: int
    weight: torch.Tensor
    moments: torch.Tensor | None


def table_kernels(model: nn.Module) -> list[Any]:
    """TorchRec's embedding kernels of this rank; each holds one of FBGEMM's modules as ``emb_module``."""
    return [
        kernel
        for module in model.modules()
        if isinstance(module, ShardedEmbeddingBagCollection)
        for lookup in module._lookups
        for kernel in lookup._emb_modules
    ]


def local_shards(model: nn.Module) -> list[TableShard]:
    """The shards of this rank, in an order that is the same on all ranks of a replica set."""
    found = []
    for kernel in table_kernels(model):
        tbe = kernel.emb_module
        states = tbe.split_optimizer_states()
        for i, (config, weight) in enumerate(
            zip(kernel.config.embedding_tables, tbe.split_embedding_weights(), strict=True)
        ):
            row, column = config.local_metadata.shard_offsets
            moments = states[i][0] if states else None
            found.append(TableShard(config.name, config.num_embeddings, row, column, weight, moments))
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
