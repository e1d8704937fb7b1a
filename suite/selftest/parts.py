"""What the selftest does, part by part."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from suite.environment import available_memory, visible_gpu_memory, visible_gpus
from suite.errors import ConfigError
from suite.record import LaunchRecord
from suite.selftest.workload import STEPS, workload
from suite.session import check, open_launcher
from suite.spec import Frozen, RunSpec, validated

CHECKED = "suite.selftest.checked:Checked"
FAULTY = "suite.selftest.checked:Faulty"


class Part(Frozen):
    """One thing that was tried, and what came of it. ``skipped`` says why."""

    name: str
    status: Literal["ok", "fail", "skipped"]
    message: str
    seconds: float


@dataclass(frozen=True)
class Case:
    """One training beside the oracle."""

    implementation: str
    world_size: int
    replica_groups: int = 1
    placement: str = "interleaved"
    optimizer: str = "rowwise_adagrad"
    sync_interval: int = 1

    @property
    def name(self) -> str:
        """For the report."""
        groups = f" M={self.replica_groups} {self.placement}" if self.replica_groups > 1 else ""
        interval = f" every {self.sync_interval} steps" if self.sync_interval > 1 else ""
        return f"{self.implementation} T={self.world_size}{groups} {self.optimizer}{interval}"

    def run(self, device: str, implementation: str = CHECKED) -> RunSpec:
        """The run; two tables row-wise, two table-wise, large steps and a large eps, so that both matter."""
        scaled = self.optimizer.startswith("momentum_scaled")
        return validated(
            RunSpec,
            {
                "workload": workload(self.implementation),
                "implementation": implementation,
                "layout": {
                    "world_size": self.world_size,
                    "replica_groups": self.replica_groups,
                    "placement": self.placement,
                    "sharding_by_table": {"users": "row_wise", "products": "row_wise"},
                },
                "optimizer": {
                    "name": self.optimizer,
                    "learning_rate": 0.05,
                    "eps": 0.01,
                    "scale": 3.0 if scaled else None,
                    "dense": {"name": "adagrad", "learning_rate": 0.02},
                },
                "sync_interval": self.sync_interval,
                "steps": STEPS,
                "warmup_steps": 4,
                "device": device,
            },
        )


def cases(device: str) -> list[Case]:
    """Every built-in implementation, so far as there are ranks for it."""
    momentum = "momentum_scaled_rowwise_adagrad"
    found = [
        Case("baseline_1d", 2),
        Case("reference_2d", 2, 2, optimizer=momentum),
        Case("reference_2d", 4, 2, sync_interval=3),
        Case("reference_2d", 4, 2, "contiguous"),
    ]
    if device == "cuda":
        found += [
            Case("torchrec_dmp_collection", 2, 2, optimizer=momentum),
            Case("torchrec_dmp_collection", 4, 2, sync_interval=3),
            Case("torchrec_dmp_collection", 4, 2, "contiguous"),
        ]
    return found


def cases_of(implementation: str, world_size: int, replica_groups: int) -> list[Case]:
    """One implementation in one layout: both placements, both kinds of optimizer."""
    placements = ("interleaved", "contiguous") if replica_groups > 1 else ("interleaved",)
    return [
        Case(implementation, world_size, replica_groups, placement, optimizer)
        for placement in placements
        for optimizer in ("sgd", "momentum_scaled_rowwise_adagrad")
    ]


def conformance(case: Case, device: str) -> Part:
    """Ten steps beside the oracle, and what the ranks say of their memory."""

    def judge() -> tuple[Literal["ok", "fail", "skipped"], str]:
        if device == "cuda" and case.world_size > visible_gpus():
            return "skipped", f"it needs {case.world_size} GPUs, {visible_gpus()} are visible."
        try:
            launch = _launched(case.run(device))
        except ConfigError as error:
            return "fail", f"refused: {error.report.field}: {error.report.message}"
        if launch.error is not None:
            return "fail", launch.error.message
        if wrong := _wrong_memory(launch, case):
            return "fail", wrong
        return "ok", "equals the oracle within 1e-5 after ten steps."

    return _timed(case.name, judge)


def a_fault_ends_cleanly(device: str) -> Part:
    """A rank raises while the other waits for it: the launch ends, and names the rank."""

    def judge() -> tuple[Literal["ok", "fail", "skipped"], str]:
        if device == "cuda" and visible_gpus() < 2:
            return "skipped", f"it needs 2 GPUs, {visible_gpus()} are visible."
        launch = _launched(Case("reference_2d", 2, 2).run(device, FAULTY))
        error = launch.error
        if error is None or (error.kind, error.rank) != ("rank_raised", 1):
            return "fail", f"rank 1 raised, and the launch ended with: {error}"
        return "ok", f"{error.message}"

    return _timed("a rank that raises", judge)


def parts(device: str) -> Iterator[tuple[str, Callable[[], Part]]]:
    """Names of the parts, and what does each, in order."""
    for case in cases(device):
        yield case.name, partial(conformance, case, device)
    yield "a rank that raises", partial(a_fault_ends_cleanly, device)


def _launched(run: RunSpec) -> LaunchRecord:
    check(run)
    with tempfile.TemporaryDirectory(prefix="selftest-") as folder:
        return open_launcher(run.launcher).launch(run, 0, Path(folder), lambda _: None)


def _wrong_memory(launch: LaunchRecord, case: Case) -> str | None:
    """What is wrong with the bytes: tables by arithmetic, a process between them and the machine."""
    tables = workload(case.implementation).tables
    whole = case.replica_groups * sum(4 * t.rows * t.dim for t in tables)
    held = sum(rank.memory.embedding_weights for rank in launch.ranks)
    if held != whole:
        return f"all ranks say that they hold {held:,} bytes of tables, and by arithmetic it is {whole:,}."
    for rank in launch.ranks:
        have = available_memory() if rank.device == "cpu" else visible_gpu_memory()
        if not rank.memory.embedding_weights < rank.memory.process < have:
            return f"rank {rank.rank} says that its process takes {rank.memory.process:,} bytes."
        peak = rank.memory.allocated_peak
        if peak is not None and peak < rank.memory.embedding_weights:
            return f"rank {rank.rank} says that its GPU's peak is {peak:,} bytes, less than its tables."
    return None


def _timed(name: str, judge: Callable[[], tuple[Any, str]]) -> Part:
    begin = time.monotonic()
    status, message = judge()
    return Part(name=name, status=status, message=message, seconds=round(time.monotonic() - begin, 1))
