"""The oracle's tensors by the names that ``Implementation.gather_weights`` gives to TorchRec's DLRM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from suite.oracle.dlrm import Layer
from suite.oracle.training import Oracle

#: TorchRec's names of DLRM's layers, first to last.
BOTTOM = tuple(f"dense.dense_arch.model._mlp.{i}._linear" for i in range(2))
OVER = (*(f"dense.over_arch.model.0._mlp.{i}._linear" for i in range(2)), "dense.over_arch.model.1")


def layers(weights: Mapping[str, torch.Tensor], names: Sequence[str]) -> list[Layer]:
    """The dense layers of these names."""
    return [Layer(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in names]


def cross_names(count: int) -> list[list[str]]:
    """DLRM_DCN's cross layers, first to last: the names of each one's three tensors."""
    return [
        [f"dense.inter_arch.crossnet.{kind}.{layer}" for kind in ("V_kernels", "W_kernels", "bias")]
        for layer in range(count)
    ]


def named(oracle: Oracle, with_moments: bool) -> dict[str, torch.Tensor]:
    """The oracle's tensors; its groups are equal, as they are after a sync."""
    group = oracle.groups[0]
    named = {f"table.{name}": weight for name, weight in group.tables.items()}
    if with_moments:
        # One moment a row comes back as [rows], several as [rows, C].
        named |= {f"moment.{name}": v.squeeze(1) for name, v in group.moments.items()}
    for names, layers in ((BOTTOM, oracle.bottom), (OVER, oracle.over)):
        for name, layer in zip(names, layers, strict=True):
            named |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
    for three, crossing in zip(cross_names(len(oracle.cross)), oracle.cross, strict=True):
        named |= dict(zip(three, crossing, strict=True))
    return named
