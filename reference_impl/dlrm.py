"""TorchRec's own models, built for sharding: DLRM (Naumov et al., arXiv 1906.00091) and DLRM_DCN.

They differ in how the vectors of a sample interact: DLRM takes the dot products of all pairs, DLRM_DCN sends
them, side by side, through the cross layers of DCN-V2 (Wang et al., arXiv 2008.13535).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torchrec.models.dlrm import DLRM, DLRM_DCN
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig, EmbeddingConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection


@dataclass(frozen=True)
class Table:
    """An embedding table of ``rows`` x ``dim`` and the features that look it up."""

    name: str
    rows: int
    dim: int
    features: tuple[str, ...]
    pooling: Literal["sum", "mean", "none"] = "sum"
    dtype: Literal["fp32", "fp16"] = "fp32"


@dataclass(frozen=True)
class CrossLayers:
    """The cross layers of DLRM_DCN: how many, and the rank of each one's two matrices."""

    layers: int
    low_rank: int


def embedding_collection(tables: Sequence[Table]) -> EmbeddingBagCollection:
    """Pooled tables, unsharded, on the meta device: sharding allocates each shard on its own rank."""
    return EmbeddingBagCollection(
        device=torch.device("meta"),
        tables=[
            EmbeddingBagConfig(
                name=t.name,
                num_embeddings=t.rows,
                embedding_dim=t.dim,
                feature_names=list(t.features),
                data_type=DataType.FP16 if t.dtype == "fp16" else DataType.FP32,
                pooling=PoolingType.MEAN if t.pooling == "mean" else PoolingType.SUM,
            )
            for t in tables
        ],
    )


def unpooled_collection(tables: Sequence[Table]) -> EmbeddingCollection:
    """The same for tables that give one vector an id."""
    return EmbeddingCollection(
        device=torch.device("meta"),
        tables=[
            EmbeddingConfig(
                name=t.name, num_embeddings=t.rows, embedding_dim=t.dim, feature_names=list(t.features)
            )
            for t in tables
        ],
    )


def build_dlrm(
    tables: Sequence[Table],
    dense_features: int,
    bottom_mlp: Sequence[int],
    over_mlp: Sequence[int],
    seed: int,
    device: torch.device,
    cross: CrossLayers | None = None,
) -> DLRM:
    """DLRM, or with ``cross`` DLRM_DCN, with dense layers that depend on the seed alone, equal on every rank.

    Its forward takes (dense [B, dense_features], sparse KeyedJaggedTensor) and returns logits [B, 1].
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = {
            "embedding_bag_collection": embedding_collection(tables),
            "dense_in_features": dense_features,
            "dense_arch_layer_sizes": list(bottom_mlp),
            "over_arch_layer_sizes": list(over_mlp),
        }
        if cross is None:
            model = DLRM(**layers)
        else:
            model = DLRM_DCN(**layers, dcn_num_layers=cross.layers, dcn_low_rank_dim=cross.low_rank)
    for dense in (model.dense_arch, model.inter_arch, model.over_arch):
        dense.to(device)
    return model
