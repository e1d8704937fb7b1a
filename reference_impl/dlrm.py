"""DLRM, TorchRec's own model (Naumov et al., arXiv 1906.00091), built for sharding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torchrec.models.dlrm import DLRM
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection


@dataclass(frozen=True)
class Table:
    """An embedding table of ``rows`` x ``dim`` and the features that look it up."""

    name: str
    rows: int
    dim: int
    features: tuple[str, ...]
    pooling: Literal["sum", "mean"] = "sum"
    dtype: Literal["fp32", "fp16"] = "fp32"


def embedding_collection(tables: Sequence[Table]) -> EmbeddingBagCollection:
    """The unsharded tables on the meta device: sharding allocates each shard on its own rank."""
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


def build_dlrm(
    tables: Sequence[Table],
    dense_features: int,
    bottom_mlp: Sequence[int],
    over_mlp: Sequence[int],
    seed: int,
    device: torch.device,
) -> DLRM:
    """DLRM with dense layers that depend on the seed alone, the same on every rank.

    Its forward takes (dense [B, dense_features], sparse KeyedJaggedTensor) and returns logits [B, 1].
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = DLRM(
            embedding_bag_collection=embedding_collection(tables),
            dense_in_features=dense_features,
            dense_arch_layer_sizes=list(bottom_mlp),
            over_arch_layer_sizes=list(over_mlp),
        )
    model.dense_arch.to(device)
    model.over_arch.to(device)
    return model
