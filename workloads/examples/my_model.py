"""A model of your own: pooled embeddings and dense features, side by side into one MLP."""

from __future__ import annotations

import torch
from torch import nn
from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from suite.spec import WorkloadSpec


class WideMLP(nn.Module):
    """Logit = MLP(dense features and pooled embeddings, concatenated)."""

    def __init__(self, workload: WorkloadSpec, device: torch.device) -> None:
        super().__init__()
        self.embeddings = EmbeddingBagCollection(
            device=torch.device("meta"),  # sharding allocates each table's shards on their own ranks
            tables=[
                EmbeddingBagConfig(
                    name=table.name,
                    num_embeddings=table.rows,
                    embedding_dim=table.dim,
                    feature_names=list(table.features),
                    pooling=PoolingType(table.pooling.upper()),
                )
                for table in workload.tables
            ],
        )
        self.features = workload.features
        width = workload.model.dense_features + sum(t.dim * len(t.features) for t in workload.tables)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)

    def forward(self, dense: torch.Tensor, sparse: KeyedJaggedTensor) -> torch.Tensor:
        """Dense [B, dense_features] and F features of B samples each; returns logits [B, 1]."""
        pooled = self.embeddings(sparse)
        # By name: in which order a sharded collection's ``values()`` holds the features depends on the
        # sharding, and the model would be another one in every layout.
        columns = [pooled[feature] for feature in self.features]  # each [B, dim]
        return self.mlp(torch.cat([dense, *columns], dim=1))


def wide_mlp(workload: WorkloadSpec, device: torch.device) -> nn.Module:
    """What ``model.factory`` names. Called on every rank with torch's seed set to the run's."""
    return WideMLP(workload, device)
