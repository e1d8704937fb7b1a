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
from torch.nn.parallel import DistributedDataParallel
from torchrec.distributed.embedding import ShardedEmbeddingCollection
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
        states: views of the optimizer's state tensors, each of shape [block rows] or [block rows, block
            columns] (``optimizer.KINDS`` says which); none for SGD.
        on_all_ranks: every rank of the group has this block: a data-parallel table.
    """

    table: str
    rows: int
    row_offset: int
    column_offset: int
    weight: torch.Tensor
    states: tuple[torch.Tensor, ...]
    on_all_ranks: bool = False


def table_kernels(model: nn.Module) -> list[Any]:
    """TorchRec's embedding kernels of this rank; each holds one of FBGEMM's modules as ``emb_module``."""
    return [
        kernel
        for module in model.modules()
        if isinstance(module, ShardedEmbeddingBagCollection | ShardedEmbeddingCollection)
        for lookup in module._lookups
        if not isinstance(lookup, DistributedDataParallel)
        for kernel in lookup._emb_modules
    ]


def local_shards(model: nn.Module, unfused: torch.optim.Optimizer | None = None) -> list[TableShard]:
    """The shards of this rank, in an order that is the same on all ranks of a replica set.

    Args:
        model: sharded.
        unfused: of its data-parallel tables, if it has any.
    """
    found = []
    for kernel in table_kernels(model):
        tbe = kernel.emb_module
        states = tbe.split_optimizer_states()
        for i, (config, weight) in enumerate(
            zip(kernel.config.embedding_tables, tbe.split_embedding_weights(), strict=True)
        ):
            row, column = config.local_metadata.shard_offsets
            of_table = tuple(states[i]) if states else ()
            found.append(TableShard(config.name, config.num_embeddings, row, column, weight, of_table))
    for table, weight in data_parallel_tables(model):
        sums = unfused.state[weight].get("sum") if unfused is not None else None
        # A row-wise moment comes as [rows, 1].
        of_table = () if sums is None else (sums.view(-1) if sums.shape[1:] == (1,) else sums,)
        found.append(TableShard(table, len(weight), 0, 0, weight, of_table, on_all_ranks=True))
    return found


def gather_tables(
    shards: list[TableShard], group: dist.ProcessGroup
) -> tuple[dict[str, torch.Tensor], dict[str, tuple[torch.Tensor, ...]]]:
    """Whole tables and their optimizer states, on the CPU of every rank of the group. Collective.

    Returns:
        Weights [rows, dim] by table, and states by table (none for SGD). A state with a number an element
        is [rows, dim]; one with a number a row is [rows], or [rows, C] where the table's columns are cut into
        C > 1 shards, each with numbers of its own.
    """
    mine = [
        (s.table, s.row_offset, s.column_offset, [t.detach().cpu().clone() for t in (s.weight, *s.states)])
        for s in shards
        if not s.on_all_ranks or dist.get_rank(group) == 0
    ]
    everyone: list[list] = [[] for _ in range(dist.get_world_size(group))]
    dist.all_gather_object(everyone, mine, group=group)
    blocks: dict[str, list] = {}
    for block in (block for rank in everyone for block in rank):
        blocks.setdefault(block[0], []).append(block)
    weights, states = {}, {}
    for table, parts in blocks.items():
        weights[table], *of_table = (
            _whole([(row, column, tensors[k]) for _, row, column, tensors in parts])
            for k in range(len(parts[0][3]))
        )
        states[table] = tuple(of_table)
    return weights, states


def _whole(blocks: list[tuple[int, int, torch.Tensor]]) -> torch.Tensor:
    """One tensor of the blocks that start at (row, column); blocks of shape [rows] become its columns."""
    blocks = sorted(blocks, key=lambda block: block[:2])
    # All blocks that start at one column, from the first row to the last.
    strips = [
        torch.cat([tensor for _, at, tensor in blocks if at == column])
        for column in sorted({column for _, column, _ in blocks})
    ]
    if strips[0].dim() == 1:
        return strips[0] if len(strips) == 1 else torch.stack(strips, dim=1)
    return torch.cat(strips, dim=1)
