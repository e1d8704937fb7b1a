"""A delay put into one component of one rank's step, wherever in the libraries its time is spent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchrec.distributed import comm_ops
from torchrec.distributed.embeddingbag import ShardedEmbeddingBagCollection

from reference_impl.batch import Batch
from reference_impl.ranges import component
from suite.implementations.reference_2d import Reference2D
from suite.spec import RunSpec

DELAY_S = 0.05


class Delayed(Reference2D):
    """The reference, with a delay in ``where`` while ``is_on``; ``arm`` comes after a first step."""

    def __init__(self, run: RunSpec, device: torch.device, where: str) -> None:
        super().__init__(run, device)
        self.where = where
        self.is_on = False
        if where == "dense_all_reduce":
            ddp = next(m for m in self.model.modules() if isinstance(m, DistributedDataParallel))
            # A lambda: DDP refuses annotations that are strings.
            ddp.register_comm_hook(None, lambda _, bucket: self._all_reduce(bucket))

    def arm(self) -> None:
        """Puts the delay into place, on the rank that is to be late."""
        modules = list(self.model.modules())
        sharded = next(m for m in modules if isinstance(m, ShardedEmbeddingBagCollection))
        over_arch = next(m for name, m in self.model.named_modules() if name.endswith("over_arch"))
        match self.where:
            case "input_dist":
                before(sharded._input_dists[0], "forward", self._delay)
            case "lookup":
                before(sharded._lookups[0], "forward", self._delay)
            case "output_dist":
                before(sharded._output_dists[0], "forward", self._delay)
            case "dense_forward":
                over_arch.register_forward_pre_hook(lambda *_: self._delay())
            case "dense_backward":
                over_arch.register_forward_hook(lambda _, __, output: self._delay_gradient(output))
            case "output_dist_backward":
                before(comm_ops.All2All_Pooled_Wait, "backward", self._delay)
            case "lookup_backward_optimizer":
                sharded._lookups[0].register_forward_hook(lambda _, __, output: self._delay_gradient(output))
            case "dense_optimizer":
                self.dense_optimizer.register_step_pre_hook(lambda *_: self._delay())
            case "replica_sync":
                before(self._schedule, "after_step", self._delay)

    def train_step(self, batch: Batch) -> torch.Tensor:
        if self.where == "other":
            self._delay()
        return super().train_step(batch)

    def _delay(self) -> None:
        if self.is_on:
            time.sleep(DELAY_S)

    def _delay_gradient(self, output: torch.Tensor) -> None:
        if output.requires_grad:
            output.register_hook(lambda _: self._delay())

    def _all_reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        with component("dense_all_reduce"):
            self._delay()
            mean = bucket.buffer().div_(dist.get_world_size())
            return dist.all_reduce(mean, async_op=True).get_future().then(lambda future: future.value()[0])


def before(owner: Any, name: str, action: Callable[[], None]) -> None:
    original = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        action()
        return original(*args, **kwargs)

    setattr(owner, name, staticmethod(wrapped) if isinstance(owner, type) else wrapped)
