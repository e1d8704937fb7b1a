"""M replica groups in one process: the exact mathematics of 2D sparse parallelism, without communication.

After a replica sync all groups hold the same tables. With a sync after each step, then, one copy is enough:
all groups look up the same weights, each group's gradient moves the rows that its own samples touch, and the
average over the groups is added to the one copy. Untouched rows do not move in any group. The work of a
step follows the ids of the global batch, not M. With a sync every k-th step the groups differ in between, and
there are M copies.

What a step does, for each table (``docs/paper.md`` has the method, ``reference_impl`` the distributed one):

    g_m[r]    gradient of the mean loss over group m's own samples, summed over the samples that hold row r
    w_m, v_m  the optimizer's step on rows with a gradient, from the group's own copy
    sync      w <- mean over m of w_m; optimizer state the same, at once or one sync later
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor, KeyedTensor

from reference_impl import initial_weights
from reference_impl.layout import RankLayout
from reference_impl.plan import embedding_collections
from suite.quality.optimizers import RowOptimizer, TouchedRows


@dataclass
class _Feature:
    """One feature of a stack: where its table's rows begin in the stack, and how its bags are pooled."""

    name: str
    first_row: int
    mean: bool


@dataclass
class _Lookup:
    """What a forward looked up, kept for its backward: one entry an id."""

    rows: torch.Tensor  # in the stack, [K]
    bags: torch.Tensor  # feature * samples + sample, [K]
    shares: torch.Tensor  # weight of the id in its bag: 1, or 1 / length, [K]
    pooled: torch.Tensor  # [features * samples, dim], a leaf that collects the gradient


class TableStack:
    """All tables of one dim, one below the other, in one copy or in M copies.

    Args:
        configs: of the tables, each with ``dim`` columns.
        dim: D.
        seed: of the initial weights.
        optimizer: for all of them.
        copies: 1, or M where groups differ between syncs.
        delayed: whether optimizer state is used one sync after it was averaged.
    """

    def __init__(
        self,
        configs: list[EmbeddingBagConfig],
        dim: int,
        seed: int,
        optimizer: RowOptimizer,
        copies: int,
        delayed: bool,
    ) -> None:
        self.dim = dim
        self.features: list[_Feature] = []
        self._tables: dict[str, slice] = {}
        self._optimizer = optimizer
        self._groups = optimizer.groups
        self._copies = copies
        self._lookups: list[_Lookup] = []
        self._steps = 0
        row = 0
        for config in configs:
            rows = slice(row, row + config.num_embeddings)
            self._tables[config.name] = rows
            mean = config.pooling == PoolingType.MEAN
            self.features += [_Feature(name, row, mean) for name in config.feature_names]
            row = rows.stop
        self._rows = row
        weight = torch.empty(row, dim)
        for name, rows in self._tables.items():
            initial_weights.fill_(weight[rows], seed, name, rows.stop - rows.start)
        self._weight = weight.repeat(copies, 1)
        widths = optimizer.widths(dim)
        self._state = {name: torch.zeros(copies * row, width) for name, width in widths.items()}
        self._delayed = delayed
        self._mean_before = {n: torch.zeros(row, w) for n, w in widths.items()} if delayed else {}
        self._touches = torch.zeros(row)  # by (step, group) pairs

    def table(self, name: str) -> torch.Tensor:
        """The weights of one table, [rows, D], averaged over the groups."""
        return self._averaged(self._weight)[self._tables[name]]

    def state(self, name: str) -> dict[str, torch.Tensor]:
        """The optimizer state of one table by name, [rows, width] each, averaged over the groups."""
        return {key: self._averaged(value)[self._tables[name]] for key, value in self._state.items()}

    def touched_share(self, name: str) -> torch.Tensor:
        """Of each row of one table, the share of (step, group) pairs so far that touched it, [rows]."""
        return self._touches[self._tables[name]] / (max(1, self._steps) * self._groups)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names, in the order of the rows."""
        return tuple(self._tables)

    def look_up(self, features: KeyedJaggedTensor, groups: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """Pooled embeddings by feature, [B, D] each.

        Args:
            features: of B samples.
            groups: the group of each sample, [B]; the gradient is then kept. None only predicts, with the
                tables as a sync would make them.
        """
        samples = features.stride()
        rows, bags, shares, offsets = [], [], [], []
        count = 0
        for position, feature in enumerate(self.features):
            jagged = features[feature.name]
            lengths = jagged.lengths().long()
            sample = torch.repeat_interleave(torch.arange(samples), lengths)
            row = jagged.values() + feature.first_row
            if groups is not None and self._copies > 1:
                row = row + groups[sample] * self._rows
            rows.append(row)
            bags.append(sample + position * samples)
            shares.append(1.0 / lengths[sample] if feature.mean else torch.ones(len(sample)))
            offsets.append(count + F.pad(lengths.cumsum(0)[:-1], (1, 0)))
            count += len(row)
        row, share = torch.cat(rows), torch.cat(shares)
        weight = self._weight if groups is not None else self._averaged(self._weight)
        pooled = F.embedding_bag(row, weight, torch.cat(offsets), mode="sum", per_sample_weights=share)
        if groups is not None:
            pooled.requires_grad_()
            self._lookups.append(_Lookup(row, torch.cat(bags), share, pooled))
        return {f.name: part for f, part in zip(self.features, pooled.split(samples), strict=True)}

    def step(self, groups: torch.Tensor) -> None:
        """Moves the rows that the last forwards looked up, by the gradients of their backward.

        Args:
            groups: the group of each sample, [B]. The loss was the mean over the GLOBAL batch, so that a
                group's own mean gradient is M times what arrived here.
        """
        self._steps += 1
        keys, gradients = [], []
        for looked_up in self._lookups:
            assert looked_up.pooled.grad is not None
            sample = looked_up.bags % len(groups)
            gradients.append(looked_up.pooled.grad[looked_up.bags] * looked_up.shares.unsqueeze(1))
            keys.append(looked_up.rows % self._rows + groups[sample] * self._rows)
        self._lookups.clear()
        key, where = torch.unique(torch.cat(keys), return_inverse=True)
        gradient = torch.zeros(len(key), self.dim).index_add_(0, where, torch.cat(gradients))
        row = key % self._rows
        self._touches.index_add_(0, row, torch.ones(len(row)))
        # With one copy, several groups move the same row: each by what it would do to its own.
        held = row if self._copies == 1 else key
        before = {name: value[held] for name, value in self._state.items()}
        share = self._touches[row] / (self._steps * self._groups)
        moved, after = self._optimizer.step(TouchedRows(gradient * self._groups, before, self._steps, share))
        weight = 1.0 if self._copies > 1 else 1.0 / self._groups
        self._weight.index_add_(0, held, moved, alpha=weight)
        for name, value in self._state.items():
            value.index_add_(0, held, after[name] - before[name], alpha=weight)

    def sync(self) -> None:
        """Averages the groups. With one copy that has happened already, but for delayed state."""
        if self._copies > 1:
            self._weight.copy_(self._averaged(self._weight).repeat(self._copies, 1))
        for name, value in self._state.items():
            mean = self._averaged(value)
            if self._delayed:
                mean, self._mean_before[name] = self._mean_before[name], mean
            if self._copies > 1:
                value.copy_(mean.repeat(self._copies, 1))
            else:
                self._state[name] = mean

    def _averaged(self, value: torch.Tensor) -> torch.Tensor:
        return value if self._copies == 1 else value.view(self._copies, self._rows, -1).mean(0)


class VirtualCollection(nn.Module):
    """Stands where an EmbeddingBagCollection stood; the tables are the engine's."""

    def __init__(self, collection: EmbeddingBagCollection, engine: VirtualReplicas) -> None:
        super().__init__()
        self._configs = collection.embedding_bag_configs()
        self._names = [feature for config in self._configs for feature in config.feature_names]
        self._dims = [config.embedding_dim for config in self._configs for _ in config.feature_names]
        self._engine = engine

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """As of the collection it replaces."""
        return self._configs

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Pooled embeddings, [B, sum of dims], keyed by feature."""
        pooled = self._engine.look_up(self, features)
        return KeyedTensor(self._names, self._dims, torch.cat([pooled[name] for name in self._names], dim=1))


class VirtualReplicas:
    """A model whose tables live in M virtual groups. Its dense layers are the one set they are in 2D.

    Args:
        model: unsharded; its EmbeddingBagCollections, which may be on the meta device, are replaced.
        optimizer: of the tables; knows M.
        seed: of the initial tables.
        sync_interval: k.
        delayed: see TableStack.
    """

    def __init__(
        self, model: nn.Module, optimizer: RowOptimizer, seed: int, sync_interval: int, delayed: bool
    ) -> None:
        self._interval = sync_interval
        self._since = 0
        self._layout = RankLayout(optimizer.groups, optimizer.groups)
        self._groups: torch.Tensor | None = None
        copies = 1 if sync_interval == 1 else optimizer.groups
        self._stacks: dict[VirtualCollection, list[TableStack]] = {}
        for path, collection in embedding_collections(model).items():
            stand_in = VirtualCollection(collection, self)
            by_dim = defaultdict(list)
            for config in collection.embedding_bag_configs():
                by_dim[config.embedding_dim].append(config)
            self._stacks[stand_in] = [
                TableStack(configs, dim, seed, optimizer, copies, delayed) for dim, configs in by_dim.items()
            ]
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, stand_in)

    def look_up(self, collection: VirtualCollection, features: KeyedJaggedTensor) -> dict[str, torch.Tensor]:
        """By feature, for one of the model's collections."""
        return {
            name: pooled
            for stack in self._stacks[collection]
            for name, pooled in stack.look_up(features, self._groups).items()
        }

    def begin_step(self, global_batch: int) -> None:
        """Before the forward on a global batch: samples are dealt to the groups as ranks take them."""
        ranges = (self._layout.sample_range(m, global_batch) for m in range(self._layout.world_size))
        sizes = torch.tensor([stop - start for start, stop in ranges])
        self._groups = torch.repeat_interleave(torch.arange(len(sizes)), sizes)

    def end_step(self) -> None:
        """After the backward of the mean loss over the global batch: tables step, and sync when it is due."""
        assert self._groups is not None
        self._since += 1
        for stack in self._all():
            stack.step(self._groups)
            if self._since == self._interval:
                stack.sync()
        self._since %= self._interval
        self._groups = None

    def tables(self) -> dict[str, torch.Tensor]:
        """All tables by name, [rows, D] each, as a sync would make them now."""
        return {name: stack.table(name) for stack in self._all() for name in stack.tables}

    def states(self) -> dict[str, dict[str, torch.Tensor]]:
        """The optimizer state of all tables, averaged over the groups: by table, then by name."""
        return {name: stack.state(name) for stack in self._all() for name in stack.tables}

    def touched_shares(self) -> dict[str, torch.Tensor]:
        """By table: see ``TableStack.touched_share``."""
        return {name: stack.touched_share(name) for stack in self._all() for name in stack.tables}

    def _all(self) -> list[TableStack]:
        return [stack for stacks in self._stacks.values() for stack in stacks]
