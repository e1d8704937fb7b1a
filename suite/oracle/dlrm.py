"""DLRM (Naumov et al., arXiv 1906.00091) as functions of plain tensors.

B samples, F features, tables of dim D:

    bottom = MLP of the dense features, ReLU after every layer                      [B, D]
    pooled = for each feature the sum or mean of its table's rows, empty bag: 0     [B, F, D]
    pairs  = dot product of every two of the F + 1 vectors (bottom, pooled...),
             in the order (0,1) (0,2) ... (0,F) (1,2) ...                           [B, (F + 1) F / 2]
    logit  = MLP of (bottom, pairs), ReLU after every layer but the last            [B]

With cross layers (DCN-V2, Wang et al., arXiv 2008.13535, low-rank form) there are no pairs. With W = (F +
1) D and x_0 the F + 1 vectors side by side,

    x_(l+1) = x_0 * (W_l (V_l x_l) + b_l) + x_l     W_l: [W, rank], V_l: [rank, W]  [B, W]
    logit   = MLP of the last x, as above                                           [B]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import torch

from suite.oracle.batch import GlobalBatch


class Layer(NamedTuple):
    """y = x W^T + b; weight is [out, in]."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Of x [B, in]: [B, out]."""
        return x @ self.weight.T + self.bias


class Cross(NamedTuple):
    """A low-rank cross layer: down [rank, W], up [W, rank], bias [W]."""

    down: torch.Tensor
    up: torch.Tensor
    bias: torch.Tensor

    def __call__(self, first: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Of the first layer's input and this one's, [B, W] each: [B, W]."""
        return first * (x @ self.down.T @ self.up.T + self.bias) + x


class Feature(NamedTuple):
    """Which table a feature looks up, and how a bag becomes one vector ("sum" or "mean")."""

    name: str
    table: str
    pooling: str


def pool(table: torch.Tensor, bags: list[list[int]], pooling: str) -> torch.Tensor:
    """One vector a bag, shape [len(bags), D]: how often a bag holds each row, times the rows."""
    counts = table.new_zeros(len(bags), len(table))
    for bag, ids in zip(counts, bags, strict=True):
        for i in ids:
            bag[i] += 1 / len(ids) if pooling == "mean" else 1
    return counts @ table


def logits(
    features: Sequence[Feature],
    tables: dict[str, torch.Tensor],
    bottom: Sequence[Layer],
    over: Sequence[Layer],
    batch: GlobalBatch,
    cross: Sequence[Cross] = (),
) -> torch.Tensor:
    """Shape [B]."""
    x = batch.dense
    for layer in bottom:
        x = torch.relu(layer(x))
    vectors = [x] + [pool(tables[f.table], batch.bags[f.name], f.pooling) for f in features]
    if cross:
        first = y = torch.cat(vectors, dim=1)
        for crossing in cross:
            y = crossing(first, y)
    else:
        pairs = [(a * b).sum(1, keepdim=True) for a, b in combinations(vectors, 2)]
        y = torch.cat([x, *pairs], dim=1)
    for layer in over[:-1]:
        y = torch.relu(layer(y))
    return over[-1](y).squeeze(1)
