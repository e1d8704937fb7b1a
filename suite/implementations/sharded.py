"""What every implementation on TorchRec's DistributedModelParallel shares: all but building and stepping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch.distributed as dist
from fbgemm_gpu.split_embedding_configs import EmbOptimType as OptimType
from torch import nn
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.optim.optimizers import in_backward_optimizer_filter

from reference_impl.batch import Batch
from reference_impl.optimizer import EmbeddingOptimizer
from reference_impl.shards import gather_tables, local_shards, table_kernels
from suite.errors import ConfigError
from suite.implementation import Implementation
from suite.implementations.model import build_model
from suite.implementations.ranges import TORCHREC_RANGES
from suite.spec import DenseOptimizerSpec, RunSpec


class ShardedImplementation(Implementation):
    """Prediction, accounting and gathering over a sharded model.

    A subclass calls ``_adopt`` at the end of its ``__init__`` and adds ``train_step``, ``sync_replicas``.
    """

    @classmethod
    def check(cls, run: RunSpec) -> None:
        """Refuses a sync schedule where there is nothing to sync, and a user's model that does not fit.

        The model is built once, with its tables on the meta device.
        """
        if run.layout.replica_groups == 1:
            for field, value, default in (
                ("sync_interval", run.sync_interval, 1),
                ("sync_optimizer_state", run.sync_optimizer_state, "immediate"),
            ):
                if value != default:
                    raise ConfigError(
                        field,
                        value,
                        "one replica group has nothing to sync.",
                        "Leave it out, or use --replica-groups 2 or more.",
                    )
        if run.workload.model.factory is not None:
            build_model(run.workload, run.seed, torch.device("cpu"))

    def _adopt(
        self, model: DistributedModelParallel, optimizer: torch.optim.Optimizer, group: dist.ProcessGroup
    ) -> None:
        self.model = model
        self.dense_optimizer = optimizer
        self.shards = local_shards(model)
        self._group = group

    def predict(self, batch: Batch) -> torch.Tensor:
        """See the contract."""
        self.model.eval()
        try:
            with torch.no_grad():
                return torch.sigmoid(batch.logits_of(self.model(batch.dense, batch.sparse)))
        finally:
            self.model.train()

    def component_ranges(self) -> Mapping[str, tuple[str, ...]]:
        """See the contract."""
        return TORCHREC_RANGES

    @contextmanager
    def _plain_sgd(self) -> Iterator[None]:
        tables = [kernel.emb_module for kernel in table_kernels(self.model)]
        before = [(tbe, tbe.optimizer, tbe.get_learning_rate()) for tbe in tables]
        for tbe in tables:
            tbe.optimizer = OptimType.EXACT_SGD
            tbe.set_learning_rate(0.0)
        try:
            yield
        finally:
            for tbe, optimizer, learning_rate in before:
                tbe.optimizer = optimizer
                tbe.set_learning_rate(learning_rate)

    def cheaper_table_optimizer(self) -> AbstractContextManager[None] | None:
        """See the contract."""
        return self._plain_sgd()

    def parameter_bytes(self) -> Mapping[str, int]:
        """See the contract."""
        state = self.dense_optimizer.state.values()
        return {
            "embedding_weights": sum(s.weight.nbytes for s in self.shards),
            "embedding_optimizer_state": sum(s.moments.nbytes for s in self.shards if s.moments is not None),
            "dense_parameters": sum(p.nbytes for p in dense_parameters(self.model).values()),
            "dense_optimizer_state": sum(
                v.nbytes for entry in state for v in entry.values() if isinstance(v, torch.Tensor)
            ),
        }

    def gather_weights(self) -> Mapping[str, torch.Tensor]:
        """See the contract."""
        weights, moments = gather_tables(self.shards, self._group)
        dense = {name: p.detach().cpu().clone() for name, p in dense_parameters(self.model).items()}
        return (
            {f"table.{name}": w for name, w in weights.items()}
            | {f"moment.{name}": m for name, m in moments.items()}
            | {f"dense.{name}": p for name, p in dense.items()}
        )


def dense_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are replicated on all ranks, not fused into a table's backward."""
    return dict(in_backward_optimizer_filter(model.named_parameters()))


def dense_optimizer(
    spec: DenseOptimizerSpec, parameters: Iterable[torch.Tensor] | Iterable[dict[str, Any]]
) -> torch.optim.Optimizer:
    """PyTorch's optimizer behind a name."""
    if spec.name == "sgd":
        return torch.optim.SGD(parameters, lr=spec.learning_rate)
    return torch.optim.Adagrad(parameters, lr=spec.learning_rate)


def embedding_optimizer(run: RunSpec) -> EmbeddingOptimizer:
    """The run's optimizer of the tables; the scale c is M where the run leaves it out."""
    spec = run.optimizer
    scaled = spec.name == "momentum_scaled_rowwise_adagrad"
    scale = (spec.scale if spec.scale is not None else float(run.layout.replica_groups)) if scaled else 1.0
    return EmbeddingOptimizer(spec.name, spec.learning_rate, spec.eps, scale)
