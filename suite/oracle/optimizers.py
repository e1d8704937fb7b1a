"""Optimizers by hand, on whole tensors and dense gradients.

An untouched row has gradient zero, and every formula leaves such a row as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class TableOptimizer:
    """What happens to one copy of a table.

    Attributes:
        kind: "sgd", "adagrad" or "rowwise_adagrad".
        learning_rate: eta.
        eps: outside the root.
        c: momentum scaling: divides the second moment in the step, not in the state. 1 is none.
    """

    kind: str
    learning_rate: float
    eps: float = 0.0
    c: float = 1.0

    def step(self, weight: torch.Tensor, moment: torch.Tensor, gradient: torch.Tensor) -> None:
        """Updates weight [rows, D] and the second moments v in place: [rows, D] for AdaGrad, else [rows, C].

        Columns are cut into C equal parts, and each part of a row is a row with a moment of its own.
        """
        if self.kind == "sgd":
            weight -= self.learning_rate * gradient
            return
        if self.kind == "adagrad":
            moment += gradient.square()
            weight -= self.learning_rate * gradient / (torch.sqrt(moment) + self.eps)
            return
        parts = moment.shape[1]
        width = weight.shape[1] // parts
        for p in range(parts):
            columns = slice(p * width, (p + 1) * width)
            g = gradient[:, columns]
            moment[:, p] += g.square().mean(dim=1)
            root = torch.sqrt(moment[:, p] / self.c)
            weight[:, columns] -= self.learning_rate * g / (root + self.eps).unsqueeze(1)


@dataclass(frozen=True)
class DenseOptimizer:
    """What happens to a dense parameter: "sgd", or "adagrad" with a second moment an element."""

    kind: str
    learning_rate: float
    eps: float = 1e-10

    def step(self, weight: torch.Tensor, moment: torch.Tensor, gradient: torch.Tensor) -> None:
        """Updates both in place."""
        if self.kind == "sgd":
            weight -= self.learning_rate * gradient
            return
        moment += gradient.square()
        weight -= self.learning_rate * gradient / (torch.sqrt(moment) + self.eps)
