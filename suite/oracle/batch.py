"""A global batch in its plainest form."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class GlobalBatch:
    """G samples.

    Attributes:
        dense: [G, dense features].
        labels: [G], each 0 or 1.
        bags: by feature, for each of the G samples its ids, in order, repeated ids included.
    """

    dense: torch.Tensor
    labels: torch.Tensor
    bags: dict[str, list[list[int]]]

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, start: int, stop: int) -> GlobalBatch:
        """Samples [start, stop)."""
        return GlobalBatch(
            self.dense[start:stop],
            self.labels[start:stop],
            {feature: bags[start:stop] for feature, bags in self.bags.items()},
        )
