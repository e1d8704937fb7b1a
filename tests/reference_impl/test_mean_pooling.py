"""Mean pooling by sum and length, without sharding."""

from __future__ import annotations

import pytest
import torch
from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from reference_impl.mean_pooling import MeanBySum, divide_mixed_means
from reference_impl.plan import ShardingType


def _collection(device: str) -> EmbeddingBagCollection:
    """A mean table of two features and dim 8, and a sum table of dim 4."""
    return EmbeddingBagCollection(
        device=torch.device(device),
        tables=[
            EmbeddingBagConfig(
                name="mean",
                num_embeddings=9,
                embedding_dim=8,
                feature_names=["a", "b"],
                pooling=PoolingType.MEAN,
            ),
            EmbeddingBagConfig(name="sum", num_embeddings=5, embedding_dim=4, feature_names=["c"]),
        ],
    )


def test_it_equals_the_collection_it_stands_for() -> None:
    """Repeated ids, empty bags, a feature that is nobody's, and another order of features."""
    plain = _collection("cpu")
    ours = MeanBySum(plain)
    ours.summing = ours.summing.to_empty(device="cpu")
    ours.summing.load_state_dict(plain.state_dict())
    features = KeyedJaggedTensor(
        ["c", "other", "b", "a"],
        torch.tensor([0, 4, 4, 7, 8, 8, 1, 2, 3, 5]),
        lengths=torch.tensor([2, 1, 0, 1, 2, 0, 0, 4], dtype=torch.int32),
    )
    expected, found = plain(features), ours(features)
    assert found.keys() == expected.keys()
    assert found.length_per_key() == expected.length_per_key()
    # Rounding of a few float32 additions and one division, relative to values of up to 1.
    torch.testing.assert_close(found.values(), expected.values(), rtol=0, atol=1e-6)
    assert found["b"][1].abs().sum() == 0  # the empty bag


@pytest.mark.parametrize(
    ("mean", "other", "replaced"),
    [
        ("row_wise", "table_wise", True),
        ("row_wise", "column_wise", True),
        ("row_wise", "row_wise", False),
        ("table_wise", "row_wise", False),
        ("column_wise", "row_wise", False),
        ("table_wise", "column_wise", False),
        ("table_row_wise", "data_parallel", True),
        ("table_row_wise", "table_row_wise", False),
        ("data_parallel", "table_row_wise", False),
        ("grid", "grid", True),
        ("grid", "table_wise", True),
        ("table_wise", "grid", False),
    ],
)
def test_only_what_torchrec_would_get_wrong_is_replaced(
    mean: ShardingType, other: ShardingType, replaced: bool
) -> None:
    model = torch.nn.Module()
    model.tower = torch.nn.Module()
    model.tower.tables = _collection("meta")
    divide_mixed_means(model, {"mean": mean, "sum": other})
    assert isinstance(model.tower.tables, MeanBySum) == replaced
    assert [c.name for c in model.tower.tables.embedding_bag_configs()] == ["mean", "sum"]
