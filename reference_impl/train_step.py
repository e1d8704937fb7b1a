"""One training step, in the order in which things happen."""

from __future__ import annotations

import torch
from torch import nn

from reference_impl.batch import Batch
from reference_impl.ranges import backward, component
from reference_impl.sync.schedule import Schedule


def train_step(
    model: nn.Module, dense_optimizer: torch.optim.Optimizer, replica_sync: Schedule, batch: Batch
) -> torch.Tensor:
    """Takes one step on this rank's share of the global batch.

    Returns:
        The local loss, detached, shape []: the sum over local samples times T / G.
    """
    with component("dense_optimizer"):
        dense_optimizer.zero_grad()

    # Inside the sharding group: ids go to the ranks that own the rows (input_dist), rows are looked up
    # and pooled there (lookup), pooled embeddings come back (output_dist); then the dense layers.
    with component("dense_forward"):
        logits = batch.logits_of(model(batch.dense, batch.sparse))
        loss = batch.loss_scale * nn.functional.binary_cross_entropy_with_logits(
            logits, batch.labels, reduction="sum"
        )

    # Dense layers backward, their gradients all-reduced over all T ranks; embedding gradients go back to
    # the owners inside the group, where FBGEMM's backward updates the rows at once.
    backward(loss)

    # The dense layers, equal on all T ranks.
    with component("dense_optimizer"):
        dense_optimizer.step()

    # Across the groups: replicas of a shard have seen different samples; average them where it is due.
    with component("replica_sync"):
        replica_sync.after_step()

    return loss.detach()
