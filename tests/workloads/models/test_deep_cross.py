"""DCN-V2 over embeddings of unlike dims, against its formulae."""

from __future__ import annotations

import torch
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from suite.implementations.model import build_model
from suite.spec import BatchSpec, DataSpec, ModelSpec, TableSpec, WorkloadSpec

WORKLOAD = WorkloadSpec(
    name="crossed",
    model=ModelSpec(factory="workloads.models.deep_cross:deep_cross", dense_features=2, over_mlp=(6, 1)),
    tables=(
        TableSpec(name="wide", rows=5, dim=8, features=("a",)),
        TableSpec(name="shared", rows=7, dim=4, features=("b", "c"), pooling="mean"),
    ),
    data=DataSpec(source="unused:Unused"),
    batch=BatchSpec(global_size=3, per_rank=3),
)


def test_cross_layers_then_the_mlp() -> None:
    model = build_model(WORKLOAD, seed=1, device=torch.device("cpu"))
    model.embeddings.to_empty(device="cpu")
    draw = torch.Generator().manual_seed(0)
    for weight in model.embeddings.parameters():
        weight.data = torch.randn(weight.shape, generator=draw)
    dense = torch.randn(3, 2, generator=draw)
    bags = {"a": [[0], [1, 1], []], "b": [[6], [], [2, 3]], "c": [[0, 1], [2], [3]]}
    sparse = KeyedJaggedTensor.from_lengths_sync(
        keys=list(bags),
        values=torch.tensor([i for of in bags.values() for bag in of for i in bag]),
        lengths=torch.tensor([len(bag) for of in bags.values() for bag in of], dtype=torch.int32),
    )

    tables = {
        name: model.get_parameter(f"embeddings.embedding_bags.{name}.weight") for name in ("wide", "shared")
    }

    def pooled(feature: str) -> torch.Tensor:
        table = tables["wide" if feature == "a" else "shared"]
        sums = torch.stack([table[bag].sum(0) for bag in bags[feature]])
        sizes = torch.tensor([max(1, len(bag)) for bag in bags[feature]]).unsqueeze(1)
        return sums if feature == "a" else sums / sizes

    first = torch.cat([dense, pooled("a"), pooled("b"), pooled("c")], dim=1)
    x = first
    parameters = dict(model.named_parameters())
    for layer in range(2):
        u, v = (parameters[f"cross.{kind}_kernels.{layer}"] for kind in ("V", "W"))
        x = first * (x @ u.T @ v.T + parameters[f"cross.bias.{layer}"]) + x
    hidden = torch.relu(x @ parameters["mlp.0.weight"].T + parameters["mlp.0.bias"])
    expected = hidden @ parameters["mlp.2.weight"].T + parameters["mlp.2.bias"]
    # The same float32 sums in another order.
    torch.testing.assert_close(model(dense, sparse), expected, rtol=1e-4, atol=1e-5)
