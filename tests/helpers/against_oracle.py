"""How far two tensors are apart."""

from __future__ import annotations

import torch


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """max|a - b| / max|b|."""
    return float((a - b).abs().max() / b.abs().max())
