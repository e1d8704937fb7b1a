"""M explicit copies of one table in float64, sample by sample, row by row, for optimizers the oracle lacks.

The loss of a sample is |pooled - target|^2 / 2, where pooled adds up the rows of its ids, an id that comes
twice counting twice.
"""

from __future__ import annotations

import math

import torch

#: Ids of each sample, and what they should add up to, [B, D].
Batch = tuple[list[list[int]], torch.Tensor]
State = dict[str, torch.Tensor]


class Copies:
    """M copies in training.

    Args:
        table: the initial rows, the same in all copies.
        groups: M.
        update: the optimizer.
        interval: steps from sync to sync.
        delayed: whether a sync puts the state to use that the one before has averaged.
    """

    def __init__(
        self, table: torch.Tensor, groups: int, update: Update, interval: int, delayed: bool
    ) -> None:
        self.tables = [table.double().clone() for _ in range(groups)]
        self.states = [[update.start(table.shape[1]) for _ in table] for _ in range(groups)]
        self._update, self._interval, self._delayed = update, interval, delayed
        self._mean_before = [update.start(table.shape[1]) for _ in table]
        self._steps = 0
        self._touched = [0] * len(table)  # in how many (step, group) pairs

    def step(self, batch: Batch) -> None:
        """Takes one."""
        bags, targets = batch
        groups, size = len(self.tables), len(bags)
        self._steps += 1
        gradients: list[dict[int, torch.Tensor]] = []
        for m, table in enumerate(self.tables):
            mine: dict[int, torch.Tensor] = {}
            for i in range(m * size // groups, (m + 1) * size // groups):
                apart = sum((table[row] for row in bags[i]), torch.zeros_like(table[0])) - targets[i].double()
                for row in bags[i]:
                    mine[row] = mine.get(row, 0) + apart * groups / size
            gradients.append(mine)
        for mine in gradients:
            for row in mine:
                self._touched[row] += 1
        for table, states, mine in zip(self.tables, self.states, gradients, strict=True):
            for row, gradient in mine.items():
                q = self._touched[row] / (self._steps * groups)
                table[row] += self._update.step(states[row], gradient, self._steps, q, groups)
        if self._steps % self._interval == 0:
            self._sync()

    def _sync(self) -> None:
        for row in range(len(self.tables[0])):
            weight = torch.stack([table[row] for table in self.tables]).mean(0)
            mean = {
                key: torch.stack([states[row][key] for states in self.states]).mean(0)
                for key in self._mean_before[row]
            }
            used = self._mean_before[row] if self._delayed else mean
            self._mean_before[row] = mean
            for table, states in zip(self.tables, self.states, strict=True):
                table[row], states[row] = weight, dict(used)


class Update:
    """What a step makes of one row, whose state it changes; returned is what the row moves by."""

    def __init__(self, learning_rate: float, eps: float) -> None:
        self.learning_rate, self.eps = learning_rate, eps

    def start(self, dim: int) -> State:
        """The state of a row before the first step."""
        raise NotImplementedError

    def step(self, state: State, gradient: torch.Tensor, step: int, q: float, groups: int) -> torch.Tensor:
        """Of a touched row; ``q`` is the share of (step, group) pairs so far that touched it."""
        raise NotImplementedError


class Adam(Update):
    """Kingma and Ba, algorithm 1, t being the training's step."""

    def start(self, dim: int) -> State:
        return {key: torch.zeros(dim, dtype=torch.float64) for key in ("first", "second")}

    def step(self, state: State, gradient: torch.Tensor, step: int, q: float, groups: int) -> torch.Tensor:
        state["first"] = 0.9 * state["first"] + 0.1 * gradient
        state["second"] = 0.999 * state["second"] + 0.001 * gradient**2
        first, second = state["first"] / (1 - 0.9**step), state["second"] / (1 - 0.999**step)
        return -self.learning_rate * first / (second.sqrt() + self.eps)


class FrequencyScaled(Update):
    """Row-wise AdaGrad with c_r = M / (1 + (M - 1) q_r)."""

    def start(self, dim: int) -> State:
        return {"moment": torch.zeros(1, dtype=torch.float64)}

    def step(self, state: State, gradient: torch.Tensor, step: int, q: float, groups: int) -> torch.Tensor:
        state["moment"] = state["moment"] + (gradient**2).mean()
        c = groups / (1 + (groups - 1) * q)
        return -self.learning_rate * gradient / (math.sqrt(float(state["moment"]) / c) + self.eps)
