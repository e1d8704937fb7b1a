"""The oracle's tensors and the implementations', by the same names."""

from __future__ import annotations

import torch

from suite.oracle.dlrm import Layer
from suite.oracle.training import Oracle
from tests.helpers.training import CROSS

#: TorchRec's names of DLRM's layers, first to last.
BOTTOM = [f"dense.dense_arch.model._mlp.{i}._linear" for i in range(2)]
CROSSES = [
    [f"dense.inter_arch.crossnet.{kind}.{layer}" for kind in ("V_kernels", "W_kernels", "bias")]
    for layer in range(CROSS["layers"])
]
OVER = [f"dense.over_arch.model.0._mlp.{i}._linear" for i in range(2)] + ["dense.over_arch.model.1"]


def layers(weights: dict[str, torch.Tensor], names: list[str]) -> list[Layer]:
    return [Layer(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in names]


def named(oracle: Oracle, with_moments: bool) -> dict[str, torch.Tensor]:
    """The oracle's tensors under the names that ``gather_weights`` uses."""
    group = oracle.groups[0]  # all groups are equal after a sync
    named = {f"table.{name}": weight for name, weight in group.tables.items()}
    if with_moments:
        # One moment a row comes back as [rows], several as [rows, C].
        named |= {f"moment.{name}": v.squeeze(1) for name, v in group.moments.items()}
    for names, layers in ((BOTTOM, oracle.bottom), (OVER, oracle.over)):
        for name, layer in zip(names, layers, strict=True):
            named |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
    for three, crossing in zip(CROSSES, oracle.cross, strict=False):
        named |= dict(zip(three, crossing, strict=True))
    return named


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """max|a - b| / max|b|."""
    return float((a - b).abs().max() / b.abs().max())
