"""Mean pooling that is right in every mixture of sharding types: the sum, divided by the bag's length.

TorchRec 1.8 divides row-wise and table-row-wise mean tables after the exchange (a row's owner does not see
the whole bag), by a divisor that it also applies to features of other sharding types in the same collection;
and it does not divide grid tables after the exchange at all, but each part of a bag by its own length. So a
collection where either happens pools by sum, inside TorchRec, and is divided here, on the sample's own rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
import torch.fx
from torch import nn
from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor, KeyedTensor

from reference_impl.plan import ShardingType, embedding_collections


class MeanBySum(nn.Module):
    """Computes what an EmbeddingBagCollection on the meta device would, of one that only sums.

    Args:
        collection: its tables may pool by sum or mean.
    """

    def __init__(self, collection: EmbeddingBagCollection) -> None:
        super().__init__()
        configs = collection.embedding_bag_configs()
        self._mean = tuple(f for c in configs if c.pooling is PoolingType.MEAN for f in c.feature_names)
        self.summing = EmbeddingBagCollection(
            tables=[replace(c, pooling=PoolingType.SUM) for c in configs], device=torch.device("meta")
        )

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """As the collection's own, which models ask for."""
        return self.summing.embedding_bag_configs()

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Pools [B, sum of dims]: mean features are divided by their bags' lengths, an empty bag is 0."""
        return _divided(self.summing(features), features, self._mean)


@torch.fx.wrap  # a leaf where TorchRec's pipeline traces the model
def _divided(summed: KeyedTensor, features: KeyedJaggedTensor, mean: tuple[str, ...]) -> KeyedTensor:
    keys, dims, values = summed.keys(), summed.length_per_key(), summed.values()
    one = values.new_ones(len(values))
    lengths = [features[key].lengths().clamp(min=1) if key in mean else one for key in keys]
    divisors = torch.stack([n.to(values.dtype) for n in lengths], dim=1)
    by_column = divisors.repeat_interleave(torch.tensor(dims, device=values.device), dim=1)
    return KeyedTensor(keys, dims, values / by_column)


def divide_mixed_means(model: nn.Module, sharding: Mapping[str, ShardingType]) -> None:
    """Replaces, in place, the collections of an unsharded model that TorchRec would pool wrongly.

    Args:
        model: its EmbeddingBagCollections are submodules on the meta device.
        sharding: the sharding type of every table, by table name.
    """
    for path, collection in embedding_collections(model).items():
        if not isinstance(collection, EmbeddingBagCollection):
            continue
        configs = collection.embedding_bag_configs()
        means = {sharding[c.name] for c in configs if c.pooling is PoolingType.MEAN}
        mixed = len({sharding[c.name] for c in configs}) > 1
        if "grid" in means or (mixed and means & {"row_wise", "table_row_wise"}):
            model.set_submodule(path, MeanBySum(collection))
