"""Implementations that are wrong: in ways that only a comparison shows, or that raise."""

from __future__ import annotations

import torch

from reference_impl.batch import Batch
from suite.implementations.reference_2d import Reference2D


class Forgetful(Reference2D):
    """It leaves out the last of ten steps."""

    steps = 0

    def train_step(self, batch: Batch) -> torch.Tensor:
        self.steps += 1
        return torch.zeros(()) if self.steps == 10 else super().train_step(batch)


class Raising(Reference2D):
    """It raises in its second step."""

    steps = 0

    def train_step(self, batch: Batch) -> torch.Tensor:
        self.steps += 1
        if self.steps == 2:
            raise ValueError("the second step is too much")
        return super().train_step(batch)
