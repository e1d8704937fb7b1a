"""Memory put into one category of a rank's step, wherever in the libraries it would be allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torchrec.distributed.embeddingbag import ShardedEmbeddingBagCollection

from reference_impl.batch import Batch
from suite.implementations.reference_2d import Reference2D
from suite.memory_categories import LASTING, Category
from suite.spec import RunSpec
from tests.helpers.injection import before

INJECTED = 64 << 20


class Larger(Reference2D):
    """The reference; once switched on with 64 MiB more of one category, to the end of each step or always."""

    def __init__(self, run: RunSpec, device: torch.device, where: Category) -> None:
        super().__init__(run, device)
        self.where = where
        self._more: list[torch.Tensor] = []

    def switch_on(self) -> None:
        """After the first steps, which make what is hooked into."""
        sharded = next(m for m in self.model.modules() if isinstance(m, ShardedEmbeddingBagCollection))
        over_arch = next(m for name, m in self.model.named_modules() if name.endswith("over_arch"))
        match self.where:
            case "activations":
                over_arch.register_forward_pre_hook(lambda *_: self._allocate())
            case "gradients":
                over_arch.register_forward_hook(lambda _, __, output: self._allocate_in_backward(output))
            case "communication_buffers" if self._run.layout.replica_groups > 1:
                before(self._schedule, "after_step", self._allocate)
            case "communication_buffers":
                before(sharded._input_dists[0], "forward", self._allocate)
            case "other":
                self.dense_optimizer.register_step_pre_hook(lambda *_: self._allocate())
            case _:
                self._allocate()

    def held_tensors(self) -> Mapping[Category, Sequence[torch.Tensor]]:
        held = super().held_tensors()
        return {**held, self.where: [*held[self.where], *self._more]} if self.where in LASTING else held

    def train_step(self, batch: Batch) -> torch.Tensor:
        loss = super().train_step(batch)
        if self.where not in LASTING:
            self._more = []
        return loss

    def _allocate(self) -> None:
        self._more.append(torch.empty(INJECTED, dtype=torch.uint8))

    def _allocate_in_backward(self, output: torch.Tensor) -> None:
        if output.requires_grad:
            output.register_hook(lambda _: self._allocate())
