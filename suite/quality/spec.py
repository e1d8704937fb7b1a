"""One training of the quality lab: what is trained, in how many virtual groups, with which optimizer."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from reference_impl.errors import InvalidConfiguration
from suite.spec import (
    DenseOptimizerSpec,
    Frozen,
    Positive,
    SyncOptimizerState,
    WorkloadSpec,
    refuse_scale,
)

#: What keeps a virtual group's tables in training. Adam, and a second moment divided by a c of each row's
#: own, are not among those of real runs on CPU.
VirtualOptimizerName = Literal[
    "sgd",
    "rowwise_adagrad",
    "momentum_scaled_rowwise_adagrad",
    "frequency_scaled_rowwise_adagrad",
    "adagrad",
    "adam",
]
#: More groups than the paper's largest (4,096 GPUs in groups of 256 would be 16).
MAX_GROUPS = 256


class Schedule(NamedTuple):
    """Replicas are averaged after every ``interval``-th step, and averaged state used at once or delayed."""

    interval: int = 1
    state: SyncOptimizerState = "immediate"

    @property
    def suffix(self) -> str:
        """Of an arm's name: nothing for a sync after each step, else ``_k8``, ``_k8_delayed``."""
        often = "" if self.interval == 1 else f"_k{self.interval}"
        return often + ("" if self.state == "immediate" else f"_{self.state}")


EVERY_STEP = Schedule()


class VirtualOptimizer(Frozen):
    """See ``suite.quality.optimizers`` for the formulae. ``scale`` is c; left out it is M."""

    name: VirtualOptimizerName = "rowwise_adagrad"
    learning_rate: Annotated[float, Field(gt=0, le=1e6)] = 0.04
    eps: Annotated[float, Field(gt=0, le=1e6)] = 1e-8
    scale: Annotated[float, Field(gt=0, le=1e6)] | None = None
    dense: DenseOptimizerSpec = DenseOptimizerSpec()

    @model_validator(mode="after")
    def _scale_needs_momentum_scaling(self) -> VirtualOptimizer:
        refuse_scale(self.name, self.scale)
        return self


class Training(Frozen):
    """Complete: the same Training on the same stack gives the same model."""

    workload: WorkloadSpec
    replica_groups: Annotated[int, Field(strict=True, ge=1, le=MAX_GROUPS)] = 1
    optimizer: VirtualOptimizer = VirtualOptimizer()
    sync_interval: Positive = 1
    sync_optimizer_state: SyncOptimizerState = "immediate"
    global_batch: Positive
    steps: Positive
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**31)] = 0
    #: How often the model is scored on the evaluation split, the last time after the last step.
    curve_points: Annotated[int, Field(strict=True, ge=1, le=1000)] = 6

    @model_validator(mode="after")
    def _consistent(self) -> Training:
        if self.global_batch < self.replica_groups:
            raise InvalidConfiguration(
                "replica_groups",
                self.replica_groups,
                f"a global batch of {self.global_batch} leaves groups without a sample.",
                "Use fewer groups or a larger global batch.",
            )
        if self.sync_optimizer_state == "delayed" and self.optimizer.name == "sgd":
            raise InvalidConfiguration(
                "sync_optimizer_state",
                "delayed",
                "sgd keeps no optimizer state.",
                "Leave it out, or choose another optimizer.",
            )
        if self.replica_groups == 1 and (self.sync_interval, self.sync_optimizer_state) != (1, "immediate"):
            raise InvalidConfiguration(
                "replica_groups",
                1,
                "one replica group has nothing to sync, and a sync schedule is given.",
                "Leave the schedule out, or use 2 groups or more.",
            )
        return self

    @property
    def scored_after(self) -> tuple[int, ...]:
        """Numbers of steps after which the model is scored, ascending, the last being all of them."""
        points = min(self.curve_points, self.steps)
        return tuple(-(-self.steps * (i + 1) // points) for i in range(points))

    @property
    def training_hash(self) -> str:
        """First 16 hex digits of the SHA-256 of everything that decides the outcome, in canonical JSON."""
        content = self.model_dump(mode="json", exclude={"workload": True})
        content["spec_hash"] = self.workload.spec_hash
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
