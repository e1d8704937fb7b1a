"""An implementation that trains another one beside the oracle, and one that fails on purpose.

Both run as any implementation does, on ranks that the launcher starts and watches, so that the whole path is
what is checked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import torch

from reference_impl.batch import Batch
from suite.data import DataSource, open_source
from suite.errors import ErrorReport, RunFailed
from suite.implementation import Implementation, implementation_class
from suite.implementations.sharded import embedding_optimizer
from suite.oracle.batch import GlobalBatch
from suite.oracle.dlrm import Feature, Layer
from suite.oracle.names import BOTTOM, OVER, layers, named
from suite.oracle.optimizers import DenseOptimizer, TableOptimizer
from suite.oracle.training import Oracle
from suite.spec import RunSpec

#: max|a - b| <= TOLERANCE * max|b| for each tensor, float32 against float64 after ten steps.
TOLERANCE = 1e-5
FAULT_STEP = 3


class Checked(Implementation):
    """The implementation that the workload's description names, compared with the oracle before evaluation.

    Raises:
        RunFailed: of kind ``not_conforming``: the tensor that is furthest from the oracle, and how far.
    """

    @classmethod
    def check(cls, run: RunSpec) -> None:
        """As the implementation's own."""
        implementation_class(run.workload.description).check(run)

    def __init__(self, run: RunSpec, device: torch.device) -> None:
        self._run = run
        self._inner = implementation_class(run.workload.description)(run, device)
        self._source = open_source(run.workload, run.seed)
        self._oracle = _oracle(run, self._inner.gather_weights())
        self._step = 0
        self._compared = False

    def train_step(self, batch: Batch) -> torch.Tensor:
        """Theirs, then the oracle's on the whole batch."""
        loss = self._inner.train_step(batch)
        self._oracle.step(_global_batch(self._source, self._step, self._run.global_batch))
        self._step += 1
        return loss

    def sync_replicas(self) -> None:
        """Theirs; then both have the same tensors, or the rank fails."""
        self._inner.sync_replicas()
        if not self._compared:
            self._oracle.finish()
            self._compare()
            self._compared = True

    def _compare(self) -> None:
        expected = named(self._oracle, with_moments=self._run.optimizer.name != "sgd")
        found = self._inner.gather_weights()
        if missing := sorted(expected.keys() - found.keys()):
            raise _not_conforming(f"gather_weights() has no {', '.join(missing)}.")
        apart = {
            name: float((found[name].double() - tensor).abs().max() / tensor.abs().max())
            if found[name].shape == tensor.shape
            else float("inf")
            for name, tensor in expected.items()
        }
        worst = max(apart, key=lambda name: apart[name])
        print(f"furthest from the oracle: {worst}, {apart[worst]:.1e}", flush=True)
        if not apart[worst] <= TOLERANCE:  # not a number is no agreement
            raise _not_conforming(
                f"{worst} is {apart[worst]:.1e} from the oracle, at most {TOLERANCE:.0e} is rounding."
            )

    def predict(self, batch: Batch) -> torch.Tensor:
        """Theirs."""
        return self._inner.predict(batch)

    def component_ranges(self) -> Mapping[str, tuple[str, ...]]:
        """Theirs."""
        return self._inner.component_ranges()

    def parameter_bytes(self) -> Mapping[str, int]:
        """Theirs."""
        return self._inner.parameter_bytes()

    def gather_weights(self) -> Mapping[str, torch.Tensor]:
        """Theirs."""
        return self._inner.gather_weights()


class Faulty(Checked):
    """Its last rank raises in step FAULT_STEP, while the others wait for it in a collective."""

    def train_step(self, batch: Batch) -> torch.Tensor:
        """Theirs, until it raises."""
        if self._step == FAULT_STEP and int(os.environ["RANK"]) == self._run.layout.world_size - 1:
            raise ValueError("the selftest told this rank to raise")
        return super().train_step(batch)


def _global_batch(source: DataSource, step: int, size: int) -> GlobalBatch:
    """The samples of one step, whole, in the oracle's form."""
    samples = source.train(step * size, (step + 1) * size)
    bags = {
        feature: [bag.tolist() for bag in np.split(ids, np.cumsum(lengths)[:-1])]
        for feature, (ids, lengths) in samples.sparse.items()
    }
    return GlobalBatch(torch.tensor(samples.dense), torch.tensor(samples.labels), bags)


def _oracle(run: RunSpec, initial: Mapping[str, torch.Tensor]) -> Oracle:
    """The oracle, starting from the implementation's own initial weights."""
    optimizer = embedding_optimizer(run)
    tables = run.workload.tables
    if missing := sorted({f"table.{t.name}" for t in tables} - initial.keys()):
        raise _not_conforming(f"gather_weights() has no {', '.join(missing)}.")
    return Oracle(
        [Feature(feature, t.name, t.pooling) for t in tables for feature in t.features],
        {t.name: initial[f"table.{t.name}"] for t in tables},
        _layers(initial, BOTTOM),
        _layers(initial, OVER),
        TableOptimizer(
            "sgd" if optimizer.name == "sgd" else "rowwise_adagrad",
            optimizer.learning_rate,
            optimizer.eps,
            optimizer.scale,
        ),
        DenseOptimizer(run.optimizer.dense.name, run.optimizer.dense.learning_rate),
        run.layout.replica_groups,
        run.column_shards,
        run.sync_interval,
        run.sync_optimizer_state == "delayed",
    )


def _layers(weights: Mapping[str, torch.Tensor], names: tuple[str, ...]) -> list[Layer]:
    wanted = {f"{name}.{kind}" for name in names for kind in ("weight", "bias")}
    if missing := sorted(wanted - weights.keys()):
        raise _not_conforming(f"gather_weights() has no {', '.join(missing)}.")
    return layers(weights, names)


def _not_conforming(message: str) -> RunFailed:
    return RunFailed(
        ErrorReport(
            kind="not_conforming",
            field="implementation",
            message=message,
            remedy="It does not train what the formulae in reference_impl/README.md say.",
        )
    )
