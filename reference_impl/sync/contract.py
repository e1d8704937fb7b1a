"""Contract of a sync strategy, and the strategy of 1D."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import torch
import torch.distributed as dist


class ReplicaSync(abc.ABC):
    """What one sync does. ``Schedule`` decides when."""

    @abc.abstractmethod
    def average(self) -> None:
        """Makes the replicas equal, weights and moments, to the last bit. Collective over the replica set."""

    def waiting(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Optimizer states, each with the mean that the next sync puts into it: part of the training's state.

        Live tensors; those of the states are the shards' own. Empty where nothing waits.
        """
        return []


class NoSync(ReplicaSync):
    """1D: there is one copy."""

    def average(self) -> None:
        """Nothing to do."""


class Together(ReplicaSync):
    """Several syncs, one after the other: what is averaged over unlike groups."""

    def __init__(self, parts: Sequence[ReplicaSync]) -> None:
        self._parts = parts

    def average(self) -> None:
        """See the contract."""
        for part in self._parts:
            part.average()

    def waiting(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Of all parts."""
        return [pair for part in self._parts for pair in part.waiting()]


@torch.no_grad()
def average_(tensors: Sequence[torch.Tensor], replica: dist.ProcessGroup) -> None:
    """Replaces tensors by their mean over the group, in one coalesced all-reduce a dtype.

    A sum, then a division: gloo has no mean. A rank of a large group may hold no table; then its replicas
    hold none.
    """
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        alike = [tensor for tensor in tensors if tensor.dtype == dtype]
        replica.allreduce_coalesced(alike).wait()
        torch._foreach_div_(alike, replica.size())
