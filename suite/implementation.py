"""Contract: what an implementation of sharded training is.

Four kinds fit: TorchRec's own 1D (``baseline_1d``) and 2D (``torchrec_dmp_collection``), the reference 2D
(``reference_2d``), and anyone's own by ``module:Class``. A missing method fails before anything is launched.
The timed loop calls ``train_step`` and nothing else between reading the clock twice.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from suite.errors import ConfigError, did_you_mean
from suite.loading import load_attribute

if TYPE_CHECKING:
    import torch

    from reference_impl.batch import Batch
    from suite.checkpoints.tensors import State
    from suite.memory_categories import Category
    from suite.record import TableSharding
    from suite.spec import RunSpec

#: The implementations in the tree, by their short names.
BUILT_IN: Mapping[str, str] = {
    "baseline_1d": "suite.implementations.baseline_1d:Baseline1D",
    "reference_2d": "suite.implementations.reference_2d:Reference2D",
    "torchrec_dmp_collection": "suite.implementations.torchrec_dmp_collection:TorchRecDMPCollection",
}


class Implementation(abc.ABC):
    """A trainable, sharded model on one rank of an initialised default process group."""

    @classmethod
    def check(cls, run: RunSpec) -> None:
        """Refuses what this implementation cannot run, in the parent, before any process is launched.

        Raises:
            ConfigError: naming the field, the value and the remedy.
        """

    @abc.abstractmethod
    def __init__(self, run: RunSpec, device: torch.device) -> None:
        """Builds model, plan and optimizers. Collective: every rank calls it."""

    #: Batches that it wants to be told of ahead of their steps, beside the one of the step.
    look_ahead: int = 0

    def announce(self, batch: Batch) -> None:
        """Takes a batch ahead of its step; called once for each, in order, where ``look_ahead`` is not 0."""

    @abc.abstractmethod
    def train_step(self, batch: Batch) -> torch.Tensor:
        """One whole step: forward, backward, both optimizers, and the replica sync where one is due.

        Returns:
            The local loss, detached, shape []: the sum over local samples times T / G.
        """

    @abc.abstractmethod
    def sync_replicas(self) -> None:
        """Makes all replicas equal now, where they are not. Nothing to do in 1D.

        Called before evaluation: the last step need not have been one that syncs.
        """

    @abc.abstractmethod
    def predict(self, batch: Batch) -> torch.Tensor:
        """Click probabilities of the local batch, shape [B], float32. Collective."""

    @abc.abstractmethod
    def component_ranges(self) -> Mapping[str, tuple[str, ...]]:
        """For each component of a step, the prefixes of the profiler ranges that make it up."""

    def cheaper_table_optimizer(self) -> AbstractContextManager[None] | None:
        """Inside it the fused optimizer of the tables is plain SGD; None, on all ranks, where that cannot be.

        Used at the very end of a launch, for steps that are in no figure but one: how much of the fused
        backward is the optimizer. Not called where the run's optimizer is SGD anyway.
        """
        return None

    @abc.abstractmethod
    def parameter_bytes(self) -> Mapping[str, int]:
        """Bytes this rank holds: ``embedding_weights``, ``embedding_optimizer_state``,
        ``dense_parameters``, ``dense_optimizer_state``."""

    def held_tensors(self) -> Mapping[Category, Sequence[torch.Tensor]]:
        """The live tensors of what lasts, by category of memory: those of ``parameter_bytes``, and the
        parameters' ``gradients``.

        By their addresses what the allocator handed out is told apart. Of a category that is not named the
        size is that of ``parameter_bytes``.
        """
        return {}

    def sharding(self) -> tuple[TableSharding, ...]:
        """How the tables were sharded, for the record. Nothing where an implementation does not say."""
        return ()

    def checkpoint_state(self) -> State:
        """All that training depends on, by names that do not depend on the layout. Live tensors.

        Called right after a sync, or before the first step; a checkpoint is read INTO the tensors.
        ``table.<name>`` are Blocks of whole tables, ``moment.<name>`` and ``pending.<name>`` of their
        optimizer state, [rows, C] or [rows, dim] (a second state is ``moment2.<name>``);
        ``dense.<parameter>`` and ``dense_state.<parameter>.<name>`` are whole tensors, equal on all ranks. An
        implementation that does not define this runs without checkpoints.
        """
        raise NotImplementedError

    @abc.abstractmethod
    def gather_weights(self) -> Mapping[str, torch.Tensor]:
        """Unsharded tensors by name, on the CPU of every rank. Collective.

        ``table.<name>`` [rows, dim]; ``moment.<table>`` for the optimizer's first state and
        ``moment2.<table>`` for its second, where it has them: [rows, dim] with a number an element, and
        with a number a row [rows], or [rows, C] where the table's columns are cut into C > 1 shards, each
        with numbers of its own; ``dense.<parameter name>``. For replicas, the copy of the caller's own
        group.
        """


def implementation_class(name: str) -> type[Implementation]:
    """The class behind a short name or ``module:Class``.

    Raises:
        ConfigError: unknown short name, not an Implementation, or a method is missing.
    """
    if ":" not in name and name not in BUILT_IN:
        raise ConfigError(
            "implementation",
            name,
            "no such implementation.",
            f"{did_you_mean(name, BUILT_IN)}Use one of {sorted(BUILT_IN)}, or module:Class.",
        )
    found = load_attribute(BUILT_IN.get(name, name), "implementation")
    if not (isinstance(found, type) and issubclass(found, Implementation)):
        raise ConfigError(
            "implementation",
            name,
            "this is not an Implementation.",
            "Derive it from suite.implementation.Implementation.",
        )
    if found.__abstractmethods__:
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise ConfigError("implementation", name, f"it does not define {missing}.", "Define all of them.")
    return found
