"""The model before it is sharded."""

from __future__ import annotations

import torch

from reference_impl.dlrm import CrossLayers, Table, build_dlrm

TABLES = [Table("a", 10, 8, ("f", "g")), Table("b", 20, 8, ("h",), pooling="mean")]
CPU = torch.device("cpu")


def _dense(seed: int) -> list[torch.Tensor]:
    model = build_dlrm(TABLES, 4, [16, 8], [16, 1], seed, CPU)
    return [p for name, p in model.named_parameters() if "embedding" not in name]


def test_tables_stay_on_the_meta_device_and_dense_layers_do_not() -> None:
    """A whole table may not fit on one rank; sharding allocates the shards."""
    model = build_dlrm(TABLES, 4, [16, 8], [16, 1], 0, CPU)
    assert {p.device.type for name, p in model.named_parameters() if "embedding" in name} == {"meta"}
    assert {p.device.type for p in _dense(0)} == {"cpu"}


def test_cross_layers_of_dlrm_dcn_are_dense_layers_too() -> None:
    model = build_dlrm(TABLES, 4, [16, 8], [16, 1], 0, CPU, CrossLayers(2, low_rank=3))
    crossed = {name: p for name, p in model.named_parameters() if "crossnet" in name}
    # Three features and the dense vector, 8 wide each; two matrices and a bias a layer.
    assert [tuple(p.shape) for p in crossed.values()].count((3, 32)) == 2
    assert len(crossed) == 6
    assert {p.device.type for p in crossed.values()} == {"cpu"}


def test_dense_layers_depend_on_the_seed_alone() -> None:
    first = _dense(1)
    torch.manual_seed(99)
    again, other = _dense(1), _dense(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_building_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    _dense(1)
    assert torch.equal(torch.rand(1), expected)


def test_tables_have_their_features_and_pooling() -> None:
    model = build_dlrm(TABLES, 4, [16, 8], [16, 1], 0, CPU)
    configs = model.sparse_arch.embedding_bag_collection.embedding_bag_configs()
    assert [
        (c.name, c.num_embeddings, c.embedding_dim, c.feature_names, c.pooling.value) for c in configs
    ] == [
        ("a", 10, 8, ["f", "g"], "SUM"),
        ("b", 20, 8, ["h"], "MEAN"),
    ]
