"""2D sparse parallelism of M groups, simulated in one process.

Every group has a copy of all tables and of their second moments, and takes its own M-th of the global
batch. One step:

    1. each group: forward with its own tables and the one set of dense layers
    2. each group: the gradient of the mean loss over its own samples steps its own tables
    3. the dense layers step by the gradient of the mean loss over all samples
    4. after every k-th step, the sync: tables become the mean over the groups, and moments become

           immediate    their mean over the groups
           delayed      what was their mean over the groups at the sync before; at the first sync what they
                        were before the first step

M = 1 is plain training. Where M does not divide G, a group's gradient is its samples' sum times M / G, so
that every sample of the global batch weighs the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from suite.oracle.batch import GlobalBatch
from suite.oracle.dlrm import Cross, Feature, Layer, logits
from suite.oracle.optimizers import DenseOptimizer, TableOptimizer


@dataclass
class Group:
    """One copy of the tables, [rows, D] each, and of their second moments, [rows, C] or [rows, D] each."""

    tables: dict[str, torch.Tensor]
    moments: dict[str, torch.Tensor]


class Oracle:
    """M groups in training.

    Args:
        features: in the model's order.
        tables: initial weights by name, the same in all groups.
        bottom, over: initial dense layers.
        table_optimizer, dense_optimizer: see there.
        replica_groups: M.
        column_parts: C, into how many parts the columns of each table are cut. A part of a row has a moment;
            under AdaGrad every column has.
        sync_interval: k.
        delayed: whether moments are one sync behind.
        initial_moment: every moment before the first step.
        cross: initial cross layers; none in DLRM.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        tables: dict[str, torch.Tensor],
        bottom: Sequence[Layer],
        over: Sequence[Layer],
        table_optimizer: TableOptimizer,
        dense_optimizer: DenseOptimizer,
        replica_groups: int,
        column_parts: dict[str, int],
        sync_interval: int = 1,
        delayed: bool = False,
        initial_moment: float = 0.0,
        cross: Sequence[Cross] = (),
    ) -> None:
        self.features = list(features)
        self.groups = [
            Group(
                {name: weight.to(torch.float64, copy=True) for name, weight in tables.items()},
                {
                    name: torch.full(
                        weight.shape
                        if table_optimizer.kind == "adagrad"
                        else (len(weight), column_parts[name]),
                        initial_moment,
                        dtype=torch.float64,
                    )
                    for name, weight in tables.items()
                },
            )
            for _ in range(replica_groups)
        ]
        self.bottom = [Layer(*(p.to(torch.float64, copy=True) for p in layer)) for layer in bottom]
        self.over = [Layer(*(p.to(torch.float64, copy=True) for p in layer)) for layer in over]
        self.cross = [Cross(*(p.to(torch.float64, copy=True) for p in layer)) for layer in cross]
        self._dense = [p for layer in [*self.bottom, *self.over, *self.cross] for p in layer]
        self._dense_moments = [torch.zeros_like(p) for p in self._dense]
        self._table_optimizer = table_optimizer
        self._dense_optimizer = dense_optimizer
        self._sync_interval = sync_interval
        self._delayed = delayed
        self._steps = 0
        self._mean_before = {name: v.clone() for name, v in self.groups[0].moments.items()}

    def step(self, batch: GlobalBatch) -> float:
        """Trains on one global batch; returns its mean loss, before the update."""
        m, g = len(self.groups), len(batch)
        dense_gradients = [torch.zeros_like(p) for p in self._dense]
        loss = 0.0
        for index, group in enumerate(self.groups):
            share = batch.part(index * g // m, (index + 1) * g // m)
            share_loss, table_gradients, share_dense = self._gradients(group, share)
            loss += share_loss / g
            for total, gradient in zip(dense_gradients, share_dense, strict=True):
                total += gradient / g
            for name, gradient in table_gradients.items():
                self._table_optimizer.step(group.tables[name], group.moments[name], gradient * m / g)
        for p, moment, gradient in zip(self._dense, self._dense_moments, dense_gradients, strict=True):
            self._dense_optimizer.step(p, moment, gradient)
        self._steps += 1
        if self._steps % self._sync_interval == 0:
            self._sync()
        return loss

    def finish(self) -> None:
        """A last sync, unless the last step ended with one."""
        if self._steps % self._sync_interval:
            self._sync()

    def _gradients(
        self, group: Group, share: GlobalBatch
    ) -> tuple[float, dict[str, torch.Tensor], list[torch.Tensor]]:
        """The SUM of the losses of a group's samples, and its gradients in tables and dense layers."""
        share = GlobalBatch(share.dense.double(), share.labels.double(), share.bags)
        leaves = [*group.tables.values(), *self._dense]
        for leaf in leaves:
            leaf.requires_grad_(True)
        prediction = self._logits(group.tables, share)
        loss = F.binary_cross_entropy_with_logits(prediction, share.labels, reduction="sum")
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        for leaf in leaves:
            leaf.requires_grad_(False)
        tables = dict(zip(group.tables, gradients, strict=False))
        return float(loss.detach()), tables, list(gradients[len(tables) :])

    def _logits(self, tables: dict[str, torch.Tensor], share: GlobalBatch) -> torch.Tensor:
        """Shape [samples of the share]. Another model overrides it."""
        return logits(self.features, tables, self.bottom, self.over, share, self.cross)

    def _sync(self) -> None:
        for name in self.groups[0].tables:
            weight = torch.stack([group.tables[name] for group in self.groups]).mean(0)
            moment = torch.stack([group.moments[name] for group in self.groups]).mean(0)
            used = self._mean_before[name] if self._delayed else moment
            self._mean_before[name] = moment
            for group in self.groups:
                group.tables[name], group.moments[name] = weight.clone(), used.clone()
