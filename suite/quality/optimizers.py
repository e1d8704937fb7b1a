"""Optimizers of the virtual groups' tables, on the rows that were touched.

K touched rows of D columns with gradient g [K, D]; a row that was not touched stays as it is, as under
FBGEMM. Second moments are accumulated, never decayed, except by Adam. Names and formulae:

    sgd                                w -= lr * g
    rowwise_adagrad                    v += mean(g^2);  w -= lr * g / (sqrt(v) + eps)
    momentum_scaled_rowwise_adagrad    the same with sqrt(v / c), one c for all rows (default M)
    frequency_scaled_rowwise_adagrad   the same with sqrt(v / c_r), c_r = M / (1 + (M - 1) q_r)
    adagrad                            v += g^2, an element each;  w -= lr * g / (sqrt(v) + eps)
    adam                               Kingma and Ba, arXiv 1412.6980, with beta 0.9 and 0.999, its moments
                                       moving only where a row is touched, t counting steps

``frequency_scaled`` is this suite's own, to ask whether one c for all rows is right. q_r is the share of
(step, group) pairs so far in which the row was touched. A row that only one group meets in a step, q near 0,
has a group gradient M times larger than the global one, so v grows M times faster: c_r = M. A row that
every group meets in every step, q = 1, has the global gradient in every group but for noise: c_r = 1. In
between, 1 + (M - 1) q is how many groups are expected to touch it when one does. An idealization: q counts
all groups, this step included. A real group would know the others' counts from the last replica sync.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from suite.quality.spec import VirtualOptimizer


@dataclass(frozen=True)
class TouchedRows:
    """K rows that got a gradient in one step.

    Attributes:
        gradient: [K, D].
        state: by name [K, width], before the step.
        step: 1 for the first.
        touched_share: q of each row, [K], over all groups, this step included.
    """

    gradient: torch.Tensor
    state: Mapping[str, torch.Tensor]
    step: int
    touched_share: torch.Tensor


Change = tuple[torch.Tensor, dict[str, torch.Tensor]]


class RowOptimizer(abc.ABC):
    """One optimizer: which state a row has, and what a step makes of weights and state."""

    #: Names of state that has a number a row, and of state that has one an element.
    PER_ROW: ClassVar[tuple[str, ...]] = ()
    PER_ELEMENT: ClassVar[tuple[str, ...]] = ()

    def __init__(self, spec: VirtualOptimizer, groups: int) -> None:
        self.spec = spec
        self.groups = groups

    def widths(self, dim: int) -> dict[str, int]:
        """Name of each state tensor to the numbers it keeps for a row of ``dim`` columns."""
        return dict.fromkeys(self.PER_ROW, 1) | dict.fromkeys(self.PER_ELEMENT, dim)

    @abc.abstractmethod
    def step(self, rows: TouchedRows) -> Change:
        """What is added to the K rows' weights, [K, D], and their state after the step."""


class Sgd(RowOptimizer):
    """See the module's docstring."""

    def step(self, rows: TouchedRows) -> Change:
        """See the contract."""
        return -self.spec.learning_rate * rows.gradient, {}


class RowwiseAdagrad(RowOptimizer):
    """The three row-wise ones, which differ in c alone."""

    PER_ROW = ("moment",)

    def step(self, rows: TouchedRows) -> Change:
        """See the contract."""
        moment = rows.state["moment"] + rows.gradient.square().mean(dim=1, keepdim=True)
        root = torch.sqrt(moment / self._c(rows.touched_share))
        return -self.spec.learning_rate * rows.gradient / (root + self.spec.eps), {"moment": moment}

    def _c(self, touched_share: torch.Tensor) -> torch.Tensor | float:
        if self.spec.name == "momentum_scaled_rowwise_adagrad":
            return float(self.groups) if self.spec.scale is None else self.spec.scale
        if self.spec.name == "frequency_scaled_rowwise_adagrad":
            return (self.groups / (1 + (self.groups - 1) * touched_share)).unsqueeze(1)
        return 1.0


class Adagrad(RowOptimizer):
    """See the module's docstring."""

    PER_ELEMENT = ("moment",)

    def step(self, rows: TouchedRows) -> Change:
        """See the contract."""
        moment = rows.state["moment"] + rows.gradient.square()
        root = torch.sqrt(moment) + self.spec.eps
        return -self.spec.learning_rate * rows.gradient / root, {"moment": moment}


class Adam(RowOptimizer):
    """See the module's docstring."""

    PER_ELEMENT = ("first", "second")
    BETAS = (0.9, 0.999)

    def step(self, rows: TouchedRows) -> Change:
        """See the contract."""
        one, two = self.BETAS
        first = one * rows.state["first"] + (1 - one) * rows.gradient
        second = two * rows.state["second"] + (1 - two) * rows.gradient.square()
        root = torch.sqrt(second / (1 - two**rows.step)) + self.spec.eps
        rate = self.spec.learning_rate / (1 - one**rows.step)
        return -rate * first / root, {"first": first, "second": second}


def row_optimizer(spec: VirtualOptimizer, groups: int) -> RowOptimizer:
    """The optimizer that a spec names, for M = ``groups``."""
    classes: dict[str, type[RowOptimizer]] = {"sgd": Sgd, "adagrad": Adagrad, "adam": Adam}
    return classes.get(spec.name, RowwiseAdagrad)(spec, groups)
