"""The next-token model as a function of plain tensors: vectors of tokens, not of bags.

x     = the context's vectors in order, zeros where it has fewer than C tokens      [B, C D]
h     = MLP of x, ReLU after every layer but the last                               [B, D]
logit = <h, vector of the candidate>                                                [B]
"""

from __future__ import annotations

import torch

from suite.oracle.batch import GlobalBatch
from suite.oracle.training import Oracle


class NextTokenOracle(Oracle):
    """The oracle with this model: its dense layers are ``over``, its one table is ``tokens``."""

    context = 4

    def _logits(self, tables: dict[str, torch.Tensor], share: GlobalBatch) -> torch.Tensor:
        table = tables["tokens"]
        if not len(share):
            return table.sum() * share.labels
        x = torch.stack([self._side_by_side(table, tokens) for tokens in share.bags["context"]])
        for layer in self.over[:-1]:
            x = torch.relu(layer(x))
        candidates = torch.stack([table[token] for (token,) in share.bags["candidate"]])
        return (self.over[-1](x) * candidates).sum(1)

    def _side_by_side(self, table: torch.Tensor, tokens: list[int]) -> torch.Tensor:
        missing = table.new_zeros((self.context - len(tokens)) * table.shape[1])
        return torch.cat([*(table[token] for token in tokens), missing])
