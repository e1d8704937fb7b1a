"""Is this the next token? A small language model with one unpooled table for context and candidate.

A neural probabilistic language model (Bengio et al., 2003) trained to tell the true next token from one
drawn by the tokens' own frequency, as in noise-contrastive estimation (Gutmann and Hyvärinen, 2010). So
there is one label a sample and no softmax over the vocabulary, and the table alone grows with it:

    c      = embeddings of the last C context tokens, in order, zeros where there are fewer     [B, C D]
    hidden = ReLU layers of the workload's ``model.over_mlp``, the last with D outputs            [B, D]
    logit  = <hidden, embedding of the candidate>                                                 [B, 1]

The table is an EmbeddingCollection of TorchRec: one vector a token comes back from the owners, where a pooled
table would send one a bag.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from reference_impl.dlrm import Table, unpooled_collection
from suite.errors import ConfigError
from suite.spec import WorkloadSpec

#: C, tokens of context that the model looks at.
CONTEXT = 4


class NextToken(nn.Module):
    """See the module's docstring."""

    def __init__(self, workload: WorkloadSpec, device: torch.device) -> None:
        super().__init__()
        (table,) = workload.tables
        self.context, self.candidate = table.features
        self.tokens = unpooled_collection(
            [Table(table.name, table.rows, table.dim, table.features, table.pooling)]
        )
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise((CONTEXT * table.dim, *workload.model.over_mlp)):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.mlp = nn.Sequential(*layers[:-1]).to(device)

    def forward(self, dense: torch.Tensor, sparse: KeyedJaggedTensor) -> torch.Tensor:  # noqa: ARG002
        """B contexts of up to CONTEXT tokens, a candidate each, ``dense`` empty; returns logits [B, 1]."""
        vectors = self.tokens(sparse)
        context = vectors[self.context].to_padded_dense(CONTEXT)  # [B, C, D]
        candidate = vectors[self.candidate].to_padded_dense(1).squeeze(1)  # [B, D]
        hidden = self.mlp(context.flatten(start_dim=1))
        return (hidden * candidate).sum(dim=1, keepdim=True)


def next_token(workload: WorkloadSpec, device: torch.device) -> nn.Module:
    """What ``model.factory`` names.

    Raises:
        ConfigError: the workload is not one unpooled table with two features, or the last layer is not as
        wide
            as its vectors.
    """
    one = len(workload.tables) == 1
    table = workload.tables[0]
    if not one or len(table.features) != 2 or table.pooling != "none":
        raise ConfigError(
            "tables",
            [t.name for t in workload.tables],
            "this model has one table with pooling none and two features, the context and the candidate.",
            "Give it such a table.",
        )
    if not workload.model.over_mlp or workload.model.over_mlp[-1] != table.dim:
        raise ConfigError(
            "model.over_mlp",
            list(workload.model.over_mlp),
            f"the last layer must have {table.dim} outputs, as the candidate's vector has.",
            f"End it with {table.dim}.",
        )
    return NextToken(workload, device)
