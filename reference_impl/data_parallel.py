"""Data-parallel tables: small ones, held whole by every rank, so that no all-to-all carries their vectors.

Their gradients are materialised, whole tables, averaged by DistributedDataParallel, and applied by an
ordinary optimizer: FBGEMM fuses none into a replicated table. To be the same training as any other sharding
type a table must be stepped by the mean gradient of its group's share of the batch. So the average is over
the N ranks of the group. (TorchRec by itself, also in its own 2D, averages over all T ranks: there
such a table is trained as in 1D, whatever M, and every step pays for it.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torchrec.distributed.embeddingbag import ShardedEmbeddingBagCollection
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

from reference_impl.errors import InvalidConfiguration
from reference_impl.optimizer import EmbeddingOptimizer


def average_inside(model: nn.Module, sharding_group: dist.ProcessGroup) -> None:
    """Averages the gradients of a sharded model's data-parallel tables over the sharding group."""
    for lookup in _replicated_lookups(model):
        lookup.register_comm_hook(sharding_group, allreduce_hook)


def data_parallel_tables(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Table name and weight, [rows, dim], of every data-parallel table of a sharded model."""
    for lookup in _replicated_lookups(model):
        yield from lookup.module.named_parameters_by_table()


def _replicated_lookups(model: nn.Module) -> Iterator[DistributedDataParallel]:
    for module in model.modules():
        if isinstance(module, ShardedEmbeddingBagCollection):
            for lookup in module._lookups:
                if isinstance(lookup, DistributedDataParallel):
                    yield lookup


def unfused(optimizer: EmbeddingOptimizer, tables: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
    """The same optimizer for tables whose gradients are materialised.

    Second moments are ``state[table]["sum"]``, shape [rows, 1] where they are row-wise, else [rows, dim].

    Raises:
        InvalidConfiguration: there is none that does what FBGEMM's fused one does.
    """
    fused = optimizer.fused_params()
    if fused["optimizer"] is EmbOptimType.EXACT_SGD:
        return torch.optim.SGD(tables, lr=fused["learning_rate"])
    if fused["optimizer"] is EmbOptimType.EXACT_ROWWISE_ADAGRAD:
        return RowWiseAdagrad(tables, lr=fused["learning_rate"], eps=fused["eps"])
    if fused["optimizer"] is EmbOptimType.EXACT_ADAGRAD:
        return torch.optim.Adagrad(tables, lr=fused["learning_rate"], eps=fused["eps"])
    raise InvalidConfiguration(
        "optimizer.name",
        optimizer.name,
        "it has no counterpart for data-parallel tables, whose optimizer is not fused.",
        "Shard no table data_parallel.",
    )
