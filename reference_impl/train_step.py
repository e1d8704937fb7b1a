"""One training step, in the order in which things happen."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from reference_impl.batch import Batch
from reference_impl.ranges import backward, component
from reference_impl.sync.schedule import Schedule


def train_step(
    model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], replica_sync: Schedule, batch: Batch
) -> torch.Tensor:
    """Takes one step on this rank's share of the global batch.

    Args:
        model: sharded.
        optimizers: of what the backward does not update: the dense layers, and data-parallel tables.
        replica_sync: averages the tables of the groups.
        batch: this rank's.

    Returns:
        The local loss, detached, shape []: the sum over local samples times T / G.
    """
    with component("dense_optimizer"):
        for optimizer in optimizers:
            optimizer.zero_grad()

    # Inside the sharding group: ids go to the ranks that own the rows (input_dist), rows are looked up
    # and pooled there (lookup), pooled embeddings come back (output_dist); then the dense layers.
    with component("dense_forward"):
        logits = batch.logits_of(model(batch.dense, batch.sparse))
        loss = batch.loss_scale * nn.functional.binary_cross_entropy_with_logits(
            logits, batch.labels, reduction="sum"
        )

    # Dense layers backward, their gradients all-reduced over all T ranks; embedding gradients go back to
    # the owners inside the group, where FBGEMM's backward updates the rows at once. Data-parallel tables have
    # no owner: their gradients are all-reduced over the N ranks of the group.
    backward(loss)

    # The dense layers, equal on all T ranks, and data-parallel tables, equal in the group.
    with component("dense_optimizer"):
        for optimizer in optimizers:
            optimizer.step()

    # Across the groups: replicas of a shard have seen different samples; average them where it is due.
    with component("replica_sync"):
        replica_sync.after_step()

    return loss.detach()
