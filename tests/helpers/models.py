"""Models of a user's own, as ``model.factory`` names them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from reference_impl.dlrm import Table, unpooled_collection


def collection(tables: Any, device: str = "meta", **changes: Any) -> EmbeddingBagCollection:
    """An EmbeddingBagCollection of some of a workload's tables."""
    return EmbeddingBagCollection(
        device=torch.device(device),
        tables=[
            EmbeddingBagConfig(
                **{
                    "name": t.name,
                    "num_embeddings": t.rows,
                    "embedding_dim": t.dim,
                    "feature_names": list(t.features),
                    **changes,
                }
            )
            for t in tables
        ],
    )


class TwoTowers(nn.Module):
    """Two collections of unlike dims, each with a layer of its own: logit = <left layer, right layer>.

    Each collection picks its features out of the one KeyedJaggedTensor. The submodules' names end in
    "module", as users' do.
    """

    def __init__(self, left: EmbeddingBagCollection, right: EmbeddingBagCollection) -> None:
        super().__init__()
        self.left_tables, self.right_tables = left, right
        self.left_module = nn.Linear(_width(left), 4)
        self.right_module = nn.Linear(_width(right), 4)

    def forward(self, dense: torch.Tensor, sparse: KeyedJaggedTensor) -> torch.Tensor:
        left = self.left_module(self.left_tables(sparse).values())
        right = self.right_module(self.right_tables(sparse).values())
        return (left * right).sum(1, keepdim=True) + dense.mean(1, keepdim=True)


class BagsAndTokens(nn.Module):
    """A pooled and an unpooled collection: logit = <left bag, layer of the sum of right vectors>."""

    def __init__(self, workload: Any, device: torch.device) -> None:
        super().__init__()
        first, *others = workload.tables
        self.bags = collection([first])
        self.tokens = unpooled_collection([Table(t.name, t.rows, t.dim, t.features) for t in others])
        self.features = [feature for t in others for feature in t.features]
        self.layer = nn.Linear(others[0].dim, first.dim).to(device)

    def forward(self, dense: torch.Tensor, sparse: KeyedJaggedTensor) -> torch.Tensor:
        vectors = self.tokens(sparse)
        summed = sum(vectors[f].to_padded_dense(3).sum(1) for f in self.features)
        return (self.bags(sparse).values() * self.layer(summed)).sum(1, keepdim=True)


def bags_and_tokens(workload: Any, device: torch.device) -> nn.Module:
    """The first table pools, the others do not."""
    return BagsAndTokens(workload, device)


def _width(tables: EmbeddingBagCollection) -> int:
    return sum(c.embedding_dim * len(c.feature_names) for c in tables.embedding_bag_configs())


def two_towers(workload: Any, device: torch.device) -> nn.Module:
    """The first table by itself, the others together."""
    first, *others = workload.tables
    model = TwoTowers(collection([first]), collection(others))
    model.left_module.to(device)
    model.right_module.to(device)
    return model


class Projection(nn.Module):
    """One table: logit = <pattern, pooled embedding> + bias. Its gradient in the embedding is known.

    At all-zero weights the logit is 0, where the gradient of the loss is sigmoid(0) - label: 0.5 for
    label 0.
    """

    def __init__(self, tables: EmbeddingBagCollection, pattern: list[float], device: torch.device) -> None:
        super().__init__()
        self.tables = tables
        self.bias = nn.Parameter(torch.zeros(1, device=device))
        self.register_buffer("pattern", torch.tensor(pattern, device=device), persistent=False)

    def forward(self, dense: torch.Tensor, sparse: KeyedJaggedTensor) -> torch.Tensor:
        return (self.tables(sparse).values() * self.pattern).sum(1, keepdim=True) + self.bias


def all_ones(workload: Any, device: torch.device) -> nn.Module:
    """A gradient of 0.5 in every column."""
    return Projection(collection(workload.tables), [1.0] * workload.tables[0].dim, device)


def alternating(workload: Any, device: torch.device) -> nn.Module:
    """A gradient of 1, -1, 1, -1, ..."""
    return Projection(collection(workload.tables), [2.0, -2.0] * (workload.tables[0].dim // 2), device)


def of_other_tables(workload: Any, device: torch.device) -> nn.Module:
    """Wrong: its second table has one row more than the workload says."""
    first, *others = workload.tables
    return TwoTowers(collection([first]), collection(others, num_embeddings=others[0].rows + 1))


def of_too_few_tables(workload: Any, device: torch.device) -> nn.Module:
    """Wrong: it leaves the last table out."""
    first, second, *_ = workload.tables
    return TwoTowers(collection([first]), collection([second]))


def of_allocated_tables(workload: Any, device: torch.device) -> nn.Module:
    """Wrong: every rank allocates whole tables."""
    first, *others = workload.tables
    return TwoTowers(collection([first], device="cpu"), collection(others))


def of_tables_alone(workload: Any, device: torch.device) -> nn.Module:
    """Wrong: nothing but tables is trained."""
    model = Projection(collection(workload.tables), [1.0], device)
    model.bias.requires_grad_(False)
    return model


def no_module(workload: Any, device: torch.device) -> object:
    """Wrong: not a module."""
    return "a model"


def raises(workload: Any, device: torch.device) -> nn.Module:
    """A factory with a bug."""
    return nn.Linear(1 // 0, 1)


class ComputesItsInput(nn.Module):
    """What its tables get is not the batch's own tensor: the forward makes it."""

    def __init__(self, workload: Any, device: torch.device) -> None:
        super().__init__()
        self.tables = collection(workload.tables)
        self.layer = nn.Linear(_width(self.tables), 1)

    def forward(self, dense: torch.Tensor, sparse: KeyedJaggedTensor) -> torch.Tensor:
        made = KeyedJaggedTensor(sparse.keys(), sparse.values().clone(), lengths=sparse.lengths())
        return self.layer(self.tables(made).values())  # type: ignore[no-any-return]
