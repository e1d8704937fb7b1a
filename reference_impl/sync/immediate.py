"""Weights and optimizer state averaged together."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist

from reference_impl.shards import TableShard
from reference_impl.sync.contract import ReplicaSync, average_


class DenseSync(ReplicaSync):
    """All-reduces whole shards: after sync j, over the M replicas m,

        W = mean of W_m at sync j,    v = mean of v_m at sync j

    for every state tensor v that the optimizer keeps. Payload a rank: the bytes of its weights and states,
    whatever the batches touched.
    """

    def __init__(self, shards: Sequence[TableShard], replica: dist.ProcessGroup) -> None:
        self._replica = replica
        self._tensors = [s.weight.detach() for s in shards] + [v for s in shards for v in s.states]

    def average(self) -> None:
        """See the contract."""
        average_(self._tensors, self._replica)
