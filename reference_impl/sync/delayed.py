"""Weights averaged now, moments one sync behind."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from reference_impl.shards import TableShard
from reference_impl.sync.contract import ReplicaSync, average_


class DelayedMomentsSync(ReplicaSync):
    """All-reduces whole shards, and uses the moments' mean one sync later.

    Reading R2 of the team's blog post (PyTorch blog, March 2025: the optimizer state is synchronised on a
    delayed schedule, for AdaGrad one sync behind). With a_j the mean of the moments v_m over the M
    replicas m as they stand at sync j, and a_0 the moments before the first step, after sync j

        W = mean of W_m at sync j,    v = a_(j-1)

    So what the groups added to v between sync j-1 and sync j is not in use until sync j+1, where in turn
    what they added after sync j is missing: with d_j the mean of what they add before sync j,
    a_j = a_(j-2) + d_j. If every interval adds the same d, v grows half as fast as with immediate moments.

    Payload a rank: as ``DenseSync``. It keeps a second copy of the moments, a_(j-1).
    """

    def __init__(self, shards: Sequence[TableShard], replica: dist.ProcessGroup) -> None:
        self._replica = replica
        self._weights = [s.weight.detach() for s in shards]
        self._moments = [v for s in shards for v in s.states]
        self._averaged = [moments.clone() for moments in self._moments]

    def average(self) -> None:
        """See the contract."""
        now = [moments.clone() for moments in self._moments]
        average_([*self._weights, *now], self._replica)
        for moments, before in zip(self._moments, self._averaged, strict=True):
            moments.copy_(before)
        self._averaged = now

    def waiting(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """See the contract: the moments in use, and a_(j-1)."""
        return list(zip(self._moments, self._averaged, strict=True))
