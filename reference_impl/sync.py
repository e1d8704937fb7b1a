"""How replicas are kept equal.

With the optimizer fused into the backward pass there are no gradients to all-reduce: each group has
already applied its own. So the WEIGHTS are averaged over the M ranks of a replica set after the step, and
the optimizer state with them.
"""

from __future__ import annotations

import abc

import torch
import torch.distributed as dist

from reference_impl.shards import TableShard


class ReplicaSync(abc.ABC):
    """Contract of a sync strategy: called after every step on every rank."""

    @abc.abstractmethod
    def __call__(self) -> None:
        """Averages what is due now. Collective over the replica set."""


class NoSync(ReplicaSync):
    """1D: there is one copy."""

    def __call__(self) -> None:
        """Nothing to do."""


class DenseSync(ReplicaSync):
    """All-reduces whole shards, weights and optimizer state, after every step.

    Payload a rank: the bytes of its weights and moments, whatever the batch touched.
    """

    def __init__(self, shards: list[TableShard], replica: dist.ProcessGroup) -> None:
        self._replica = replica
        self._tensors = [s.weight.detach() for s in shards] + [
            s.moments.detach() for s in shards if s.moments is not None
        ]

    def __call__(self) -> None:
        """Averages all shards in one coalesced all-reduce (a sum, then a division: gloo has no mean)."""
        if not self._tensors:  # a rank of a large group may hold no table, and then its replicas hold none
            return
        with torch.no_grad():
            self._replica.allreduce_coalesced(self._tensors).wait()
            torch._foreach_div_(self._tensors, self._replica.size())
