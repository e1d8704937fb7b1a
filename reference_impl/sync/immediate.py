"""Weights and moments averaged together."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist

from reference_impl.shards import TableShard
from reference_impl.sync.contract import ReplicaSync, average_


class DenseSync(ReplicaSync):
    """All-reduces whole shards: after sync j, over the M replicas m,

        W = mean of W_m at sync j,    v = mean of v_m at sync j

    Payload a rank: the bytes of its weights and moments, whatever the batches touched.
    """

    def __init__(self, shards: Sequence[TableShard], replica: dist.ProcessGroup) -> None:
        self._replica = replica
        self._tensors = [s.weight.detach() for s in shards] + [
            s.moments.detach() for s in shards if s.moments is not None
        ]

    def average(self) -> None:
        """See the contract."""
        average_(self._tensors, self._replica)
