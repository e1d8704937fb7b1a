"""What every implementation on TorchRec's DistributedModelParallel shares: all but building and stepping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch.distributed as dist
from fbgemm_gpu.split_embedding_configs import EmbOptimType as OptimType
from torch import nn
from torchrec.distributed.types import ShardingPlan
from torchrec.optim.optimizers import in_backward_optimizer_filter

from reference_impl.batch import Batch
from reference_impl.data_parallel import data_parallel_tables
from reference_impl.exchange import codecs
from reference_impl.optimizer import EmbeddingOptimizer
from reference_impl.plan import plan_of_tables, sharding_types
from reference_impl.sharded_model import ShardedModel
from reference_impl.shards import TableShard, gather_tables, table_kernels
from suite.checkpoints.tensors import Blocks, State
from suite.errors import ConfigError
from suite.implementation import Implementation
from suite.implementations.model import build_model
from suite.implementations.pipeline import LOOK_AHEAD, Pipeline, WithLoss
from suite.implementations.planning import plan_in_time
from suite.implementations.ranges import TORCHREC_RANGES
from suite.memory_categories import LASTING, Category
from suite.record import TableSharding
from suite.spec import DenseOptimizerSpec, RunSpec, config_errors


class ShardedImplementation(Implementation):
    """Prediction, accounting and gathering over a sharded model.

    A subclass shards ``_trainable``, calls ``_adopt`` and then ``_enter_pipeline`` in its ``__init__``, and
    adds ``train_step`` and ``sync_replicas``.
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
        with config_errors():
            codecs(run.exchange_dtype, torch.device(run.device))
        if run.workload.model.factory is not None or run.layout.is_planned:
            model = build_model(run.workload, run.seed, torch.device("cpu"))
            if run.layout.is_planned:
                plan_in_time(run, model)

    def _adopt(
        self,
        run: RunSpec,
        sharded: ShardedModel,
        plan: ShardingPlan,
        optimizer: torch.optim.Optimizer,
        group: dist.ProcessGroup,
    ) -> None:
        self._run = run
        self.model = sharded.module
        self._plan = plan
        self.dense_optimizer = optimizer
        self.shards = sharded.shards
        self._group = group

    def _trainable(self, run: RunSpec, device: torch.device) -> nn.Module:
        """The unsharded model, in the form that is trained."""
        model = build_model(run.workload, run.seed, device)
        return model if run.pipeline == "none" else WithLoss(model)

    def _enter_pipeline(
        self, run: RunSpec, optimizers: Sequence[torch.optim.Optimizer], device: torch.device
    ) -> None:
        """Called last: the pipeline steps what the subclass would."""
        self._pipeline = None if run.pipeline == "none" else Pipeline(self.model, optimizers, device)
        self.look_ahead = 0 if self._pipeline is None else LOOK_AHEAD

    def announce(self, batch: Batch) -> None:
        """See the contract."""
        if self._pipeline is not None:
            self._pipeline.announce(batch)

    def _logits(self, batch: Batch) -> torch.Tensor:
        if self._pipeline is None:
            return batch.logits_of(self.model(batch.dense, batch.sparse))
        self._pipeline.leave()
        _, (_, logits) = self.model(batch)
        return logits

    def predict(self, batch: Batch) -> torch.Tensor:
        """See the contract."""
        self.model.eval()
        try:
            with torch.no_grad():
                return torch.sigmoid(self._logits(batch))
        finally:
            self.model.train()

    def component_ranges(self) -> Mapping[str, tuple[str, ...]]:
        """See the contract."""
        return TORCHREC_RANGES

    def sharding(self) -> tuple[TableSharding, ...]:
        """See the contract."""
        kinds = sharding_types(self._plan)
        return tuple(
            TableSharding(
                table=name,
                sharding=kinds[name],
                ranks=tuple(table.ranks or ()),
                column_shards=len({s.shard_offsets[1] for s in table.sharding_spec.shards})
                if table.sharding_spec
                else 1,
            )
            for name, table in plan_of_tables(self._plan).items()
        )

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
        held = self.held_tensors()
        return {category: sum(tensor.nbytes for tensor in held[category]) for category in LASTING}

    def held_tensors(self) -> Mapping[Category, Sequence[torch.Tensor]]:
        """See the contract."""
        dense = list(dense_parameters(self.model).values())
        tables = [weight for _, weight in data_parallel_tables(self.model)]
        return {
            "embedding_weights": [s.weight.detach() for s in self.shards],
            "embedding_optimizer_state": [state for s in self.shards for state in s.states],
            "dense_parameters": [p.detach() for p in dense],
            "dense_optimizer_state": [
                value
                for entry in self.dense_optimizer.state.values()
                for value in entry.values()
                if isinstance(value, torch.Tensor)
            ],
            "gradients": [p.grad for p in (*dense, *tables) if p.grad is not None],
        }

    def checkpoint_state(self) -> State:
        """See the contract."""
        dense = self._dense()
        return {
            **{f"table.{name}": part for name, part in self._blocks(lambda shard: shard.weight).items()},
            **self._state_blocks("moment", lambda state: state),
            **{f"dense.{name}": p.detach() for name, p in dense.items()},
            **{
                f"dense_state.{name}.{key}": value
                for name, p in dense.items()
                for key, value in self.dense_optimizer.state[p].items()
                if isinstance(value, torch.Tensor)
            },
        }

    def _dense(self) -> dict[str, nn.Parameter]:
        """The dense parameters by the names that the model itself gives them."""
        wrapped = "" if self._pipeline is None else "model."
        return {name.removeprefix(wrapped): p for name, p in dense_parameters(self.model).items()}

    def _state_blocks(
        self, prefix: str, of: Callable[[torch.Tensor], torch.Tensor | None]
    ) -> dict[str, Blocks]:
        """What belongs to each optimizer state of this rank's shards: ``moment.<table>``, ``moment2...``."""

        def kth(k: int) -> Callable[[TableShard], torch.Tensor | None]:
            return lambda shard: of(shard.states[k]) if k < len(shard.states) else None

        return {
            f"{prefix}{'' if k == 0 else k + 1}.{name}": part
            for k in range(max((len(shard.states) for shard in self.shards), default=0))
            for name, part in self._blocks(kth(k)).items()
        }

    def _blocks(self, of: Callable[[TableShard], torch.Tensor | None]) -> dict[str, Blocks]:
        """A tensor of each of this rank's shards, as blocks of whole tables."""
        dims = {t.name: t.dim for t in self._run.workload.tables}
        found: dict[str, tuple[tuple[int, int], dict[tuple[int, ...], torch.Tensor]]] = {}
        for shard in self.shards:
            if (tensor := of(shard)) is None:
                continue
            rows, columns = shard.weight.shape
            one_a_row = tensor.shape != shard.weight.shape
            unit = columns if one_a_row else 1
            shape = (shard.rows, dims[shard.table] // unit)
            at = (shard.row_offset, shard.column_offset // unit)
            found.setdefault(shard.table, (shape, {}))[1][at] = tensor.detach().view(rows, -1)
        return {table: Blocks(shape, blocks) for table, (shape, blocks) in found.items()}

    def gather_weights(self) -> Mapping[str, torch.Tensor]:
        """See the contract."""
        weights, states = gather_tables(self.shards, self._group)
        dense = {name: p.detach().cpu().clone() for name, p in self._dense().items()}
        return (
            {f"table.{name}": w for name, w in weights.items()}
            | {
                f"moment{'' if k == 0 else k + 1}.{name}": v
                for name, of_table in states.items()
                for k, v in enumerate(of_table)
            }
            | {f"dense.{name}": p for name, p in dense.items()}
        )


def dense_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are no tables; they are replicated on all ranks."""
    tables = {id(weight) for _, weight in data_parallel_tables(model)}
    unfused = in_backward_optimizer_filter(model.named_parameters())
    return {name: parameter for name, parameter in unfused if id(parameter) not in tables}


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
    return EmbeddingOptimizer(spec.name, spec.learning_rate, spec.eps, scale, spec.initial_accumulator)
