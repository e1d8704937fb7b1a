"""TorchRec's train pipeline: the ids of the next batch are exchanged while this one is trained.

A step then holds this batch's lookup, exchange of vectors, dense layers and optimizers, and the NEXT batch's
exchange of ids: the same work a step, in another order, and the same numbers. Only the first step holds two
exchanges of ids, and the last none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.train_pipeline import TrainPipelineSparseDist
from torchrec.streamable import Pipelineable

from reference_impl.batch import Batch
from suite.errors import ConfigError

#: Batches that the pipeline holds beside the one it trains.
LOOK_AHEAD = 2


class WithLoss(nn.Module):
    """A model as the pipeline calls it: from a batch to the local loss, shape [], and the logits, [B]."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """See the class. What is not the loss is detached."""
        logits = batch.logits_of(self.model(batch.dense, batch.sparse))
        loss = batch.loss_scale * nn.functional.binary_cross_entropy_with_logits(
            logits, batch.labels, reduction="sum"
        )
        return loss, (loss.detach(), logits.detach())


@dataclass(frozen=True)
class _OnDevice(Batch, Pipelineable):
    """A batch that is on its device already, where the suite has put it outside the clock."""

    def to(self, *_: object, **__: object) -> _OnDevice:
        """Nothing to move."""
        return self

    def record_stream(self, stream: torch.Stream) -> None:
        """Tells the allocator that another stream reads the tensors."""
        self.sparse.record_stream(stream)
        for tensor in (self.dense, self.labels):
            tensor.record_stream(stream)


class Pipeline:
    """A sharded ``WithLoss`` in TorchRec's pipeline.

    Args:
        model: sharded.
        optimizers: stepped together.
        device: of the batches.
    """

    def __init__(
        self,
        model: DistributedModelParallel,
        optimizers: Sequence[torch.optim.Optimizer],
        device: torch.device,
    ) -> None:
        self._pipeline = TrainPipelineSparseDist(model, _Together(optimizers), device)
        self._coming: deque[Batch] = deque()
        self._checked = False

    def announce(self, batch: Batch) -> None:
        """Takes a batch ahead of its step."""
        self._coming.append(batch)

    def step(self, batch: Batch) -> torch.Tensor:
        """Trains on a batch that was announced, or by itself; returns its local loss, detached, shape []."""
        held = len(self._pipeline.batches)
        if not held and not self._coming:
            self._coming.append(batch)
        loss, _ = self._pipeline.progress(_Taking(self._coming))
        if not self._checked:
            self._all_modules_are_in_it()
        return loss

    def leave(self) -> None:
        """Gives the model its own forward back, for prediction. The next step re-enters."""
        self._pipeline.detach()

    def _all_modules_are_in_it(self) -> None:
        """TorchRec leaves out, and only logs, modules whose input it does not find in the batch.

        Raises:
            ConfigError: the model's forward hides where its sparse features come from.
        """
        self._checked = True
        sharded = sum(hasattr(module, "_lookups") for module in self._pipeline._model.modules())
        if len(self._pipeline._pipelined_modules) != sharded:
            raise ConfigError(
                "pipeline",
                "sparse_dist",
                "TorchRec cannot pipeline this model: a collection's input is not the batch's own.",
                "Hand the model's sparse input to the collection as it is, or leave --pipeline out.",
            )


class _Together:
    """Several optimizers as one, as far as the pipeline uses it."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._optimizers = optimizers

    def zero_grad(self) -> None:
        for optimizer in self._optimizers:
            optimizer.zero_grad()

    def step(self) -> None:
        for optimizer in self._optimizers:
            optimizer.step()


class _Taking:
    """Takes what has been announced so far, as an iterator."""

    def __init__(self, coming: deque[Batch]) -> None:
        self._coming = coming

    def __iter__(self) -> _Taking:
        return self

    def __next__(self) -> _OnDevice:
        if not self._coming:
            raise StopIteration
        batch = self._coming.popleft()
        return _OnDevice(batch.dense, batch.sparse, batch.labels, batch.loss_scale)
