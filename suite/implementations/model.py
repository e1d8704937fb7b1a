"""A workload's model, unsharded: TorchRec's DLRM or DLRM_DCN, or the user's own factory."""

from __future__ import annotations

import torch
from torch import nn
from torchrec.modules.embedding_configs import BaseEmbeddingConfig, EmbeddingBagConfig

from reference_impl.dlrm import CrossLayers, Table, build_dlrm
from reference_impl.plan import embedding_collections, table_configs
from suite.errors import ConfigError
from suite.loading import load_attribute, user_code
from suite.spec import WorkloadSpec


def build_model(workload: WorkloadSpec, seed: int, device: torch.device) -> nn.Module:
    """The model with its tables on the meta device and dense layers that depend on the seed alone.

    Raises:
        ConfigError: the user's factory raises or returns no module, or its tables are not the workload's.
    """
    model_spec = workload.model
    if model_spec.factory is None:
        tables = [Table(t.name, t.rows, t.dim, t.features, t.pooling, t.dtype) for t in workload.tables]
        cross = None
        if model_spec.cross is not None:
            cross = CrossLayers(model_spec.cross.layers, model_spec.cross.low_rank)
        return build_dlrm(
            tables, model_spec.dense_features, model_spec.bottom_mlp, model_spec.over_mlp, seed, device, cross
        )
    factory = load_attribute(model_spec.factory, "model.factory")
    remedy = "It is called as function(workload, device) and must return an nn.Module."
    with torch.random.fork_rng(devices=[]), user_code("model.factory", model_spec.factory, remedy):
        torch.manual_seed(seed)
        model = factory(workload, device)
    _check_tables(model, workload)
    return model


def _check_tables(model: object, workload: WorkloadSpec) -> None:
    factory = workload.model.factory
    if not isinstance(model, nn.Module):
        raise ConfigError(
            "model.factory", factory, f"it returned {type(model).__name__}.", "Return an nn.Module."
        )
    have = {
        (
            c.name,
            c.num_embeddings,
            c.embedding_dim,
            tuple(c.feature_names),
            _pooling(c),
            c.data_type.value.lower(),
        )
        for collection in embedding_collections(model).values()
        for c in table_configs(collection)
    }
    want = {(t.name, t.rows, t.dim, t.features, t.pooling, t.dtype) for t in workload.tables}
    if have != want:
        differing = sorted({name for name, *_ in have ^ want})
        raise ConfigError(
            "model.factory",
            factory,
            f"its tables {differing} are not those of the workload (name, rows, dim, features, pooling, "
            "dtype).",
            "Build the EmbeddingBagCollections (EmbeddingCollections without pooling) from workload.tables.",
        )
    tables = {id(p) for collection in embedding_collections(model).values() for p in collection.parameters()}
    if all(id(p) in tables or not p.requires_grad for p in model.parameters()):
        raise ConfigError(
            "model.factory",
            factory,
            "the model has no dense parameter to train: its logits follow from the tables alone.",
            "Add a dense layer, be it one bias.",
        )
    on_device = [
        name
        for collection in embedding_collections(model).values()
        for name, p in collection.named_parameters()
        if p.device.type != "meta"
    ]
    if on_device:
        raise ConfigError(
            "model.factory",
            factory,
            f"the unsharded tables {on_device} are allocated on every rank.",
            "Build the collection with device=torch.device('meta').",
        )


def _pooling(config: BaseEmbeddingConfig) -> str:
    return config.pooling.value.lower() if isinstance(config, EmbeddingBagConfig) else "none"
