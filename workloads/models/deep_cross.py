"""DCN-V2 (Wang et al., arXiv 2008.13535) over embeddings of any dims: cross layers, then an MLP.

TorchRec's DLRM_DCN needs one dim for all tables; here all vectors stand side by side,

    x_0     = (dense features, pooled embeddings)                        [B, W], W = width of them all
    x_(l+1) = x_0 * (V_l (U_l x_l) + b_l) + x_l      rank-32 cross layers, TorchRec's LowRankCrossNet
    logit   = MLP of the last, ReLU after every layer but the last       [B, 1]
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torchrec.modules.crossnet import LowRankCrossNet
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from reference_impl.dlrm import Table, embedding_collection
from suite.spec import WorkloadSpec

CROSS_LAYERS, RANK = 2, 32


class DeepCross(nn.Module):
    """See the module's docstring; the MLP's layers are the workload's ``model.over_mlp``."""

    def __init__(self, workload: WorkloadSpec, device: torch.device) -> None:
        super().__init__()
        self.embeddings = embedding_collection(
            [Table(t.name, t.rows, t.dim, t.features, t.pooling) for t in workload.tables]
        )
        self.features = workload.features
        width = workload.model.dense_features + sum(t.dim * len(t.features) for t in workload.tables)
        self.cross = LowRankCrossNet(width, num_layers=CROSS_LAYERS, low_rank=RANK).to(device)
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise((width, *workload.model.over_mlp)):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.mlp = nn.Sequential(*layers[:-1]).to(device)

    def forward(self, dense: torch.Tensor, sparse: KeyedJaggedTensor) -> torch.Tensor:
        """Dense [B, dense_features] and F features of B samples each; returns logits [B, 1]."""
        pooled = self.embeddings(sparse)
        # By name: the order of features in ``values()`` depends on the sharding.
        side_by_side = torch.cat([dense, *(pooled[feature] for feature in self.features)], dim=1)
        return self.mlp(self.cross(side_by_side))


def deep_cross(workload: WorkloadSpec, device: torch.device) -> nn.Module:
    """What ``model.factory`` names."""
    return DeepCross(workload, device)
