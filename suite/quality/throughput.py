"""What the factorial {1D, 2D} x {row-wise, momentum-scaled} does to speed, on real ranks (claim C2).

Under the reading that this suite follows (``docs/paper.md``), momentum scaling with a constant c is row-wise
AdaGrad with two other constants: the same kernel on the same bytes. So it is true by construction that the
optimizer has no effect on speed, alone or together with the layout. It is measured all the same, and shows
how large an effect of nothing looks here.

All cells run on ``reference_2d``, 1D as one replica group, so that they differ in layout and optimizer alone.
They take turns, launch by launch, in an order that turns too; one launch of each is a block. An effect is a
ratio of step times inside a block, with a t interval of its logarithm over the blocks.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from suite.components import ROLLUPS
from suite.errors import ConfigError, RunFailed
from suite.metrics import METRICS
from suite.quality.ablation import ArmKey, Effect, factorial
from suite.quality.library import Experiment
from suite.quality.parity import geometric
from suite.quality.spec import Schedule
from suite.session import check, run_one
from suite.spec import Frozen, RunSpec, validated
from suite.statistics import Interval, median_interval

if TYPE_CHECKING:
    from suite.launchers.base import Launcher, Progress


STEP = "step_ms"
#: Of each launch of a cell, the step time and the exposed times of the roll-ups by metric name.
Took = Mapping[ArmKey, Sequence[Mapping[str, float]]]


class Cell(Frozen):
    """One cell: step times are measured, samples to the target come from virtual groups (emulated)."""

    replica_groups: int
    optimizer: str
    scale: float | None
    step_ms: Interval
    samples_per_s: Interval
    per_launch_ms: tuple[float, ...]
    #: Exposed time of the roll-ups in milliseconds, the median over launches.
    rollups_ms: dict[str, float]
    #: None where some seed never reached the target.
    samples_to_target: float | None
    #: Samples to the target over samples a second, at the median step time; with the interval of that.
    time_to_target_s: Interval | None


class Throughput(Frozen):
    """The factorial. ``effects`` are ratios of step times: 1 is none, above 1 is slower."""

    provenance: Literal["measured"] = "measured"
    samples_to_target_provenance: Literal["emulated"] = "emulated"
    world_size: int
    launches: int
    global_batch: int
    target_auc: float
    cells: dict[str, Cell]
    effects: dict[str, Effect]
    #: The same for the exposed time of each roll-up that all cells have.
    rollup_effects: dict[str, dict[str, Effect]]


def cells(base: RunSpec, groups: Sequence[int]) -> dict[ArmKey, RunSpec]:
    """The cells as configurations of one launch.

    Args:
        base: T ranks in 1D; workload, steps and learning rate are its.
        groups: M of the 2D layouts; those that do not divide T are left out.

    Raises:
        ConfigError: no M divides T, or a cell cannot run here.
    """
    size = base.layout.world_size
    fitting = [m for m in groups if size % m == 0]
    if not fitting:
        raise ConfigError(
            "world_size",
            size,
            f"none of the replica groups {list(groups)} divides it.",
            "Choose --world-size and --replica-groups so that one does.",
        )
    schedule = Schedule(base.sync_interval, base.sync_optimizer_state)
    keys = dict.fromkeys(key for m in fitting for key in factorial(m, schedule))
    found = {key: _run(base, key) for key in keys}
    for run in found.values():
        check(run)
    return found


def _run(base: RunSpec, key: ArmKey) -> RunSpec:
    layout = dict(base.layout) | {"replica_groups": key.groups}
    optimizer = dict(base.optimizer) | {"name": key.optimizer, "scale": key.scale}
    alone = {"sync_interval": 1, "sync_optimizer_state": "immediate"} if key.groups == 1 else {}
    return validated(RunSpec, dict(base) | {"layout": layout, "optimizer": optimizer, "launches": 1} | alone)


def measure(
    runs: Mapping[ArmKey, RunSpec],
    launches: int,
    runs_dir: Path,
    experiment: Experiment,
    launcher: Launcher,
    on_progress: Callable[[int, Progress], None],
) -> Took:
    """Times in milliseconds by name, one set a launch; launches that the experiment has are not run again.

    Raises:
        RunFailed: a launch failed; the others are kept.
        KeyboardInterrupt: Ctrl-C; finished launches are kept.
    """
    took: dict[ArmKey, list[dict[str, float]]] = {key: [] for key in runs}
    order = list(runs)
    for block in range(launches):
        turned = order[block % len(order) :] + order[: block % len(order)]
        for key in turned:
            run = runs[key].model_copy(update={"seed": block})
            name = f"launch-{hashlib.sha256(run.model_dump_json().encode()).hexdigest()[:16]}"
            kept = experiment.kept(name)
            if kept is None:
                kept = _launched(run, runs_dir, launcher, partial(on_progress, order.index(key)))
                experiment.keep(name, kept)
            took[key].append(kept["ms"])
    return took


def _launched(
    run: RunSpec, runs_dir: Path, launcher: Launcher, on_progress: Callable[[Progress], None]
) -> dict[str, Any]:
    record, path = run_one(run, runs_dir, launcher, on_progress)
    if record.error is not None:
        raise RunFailed(record.error)
    found = {name: METRICS[name].values(record) for name in (STEP, *(f"rollups.{name}" for name in ROLLUPS))}
    return {"record": str(path), "ms": {name: values[0] for name, values in found.items() if values}}


def conclude(
    runs: Mapping[ArmKey, RunSpec],
    took: Took,
    needed: Mapping[ArmKey, float | None],
    target_auc: float,
) -> Throughput:
    """Judges.

    Args:
        runs: the cells.
        took: see ``measure``.
        needed: training samples to the target AUC; None where it was not reached.
        target_auc: that AUC.
    """
    one = next(iter(runs.values()))
    return Throughput(
        world_size=one.layout.world_size,
        launches=len(next(iter(took.values()))),
        global_batch=one.global_batch,
        target_auc=target_auc,
        cells={key.name: _cell(key, took[key], one.global_batch, needed[key]) for key in runs},
        effects=_effects(took, STEP),
        rollup_effects={
            name: _effects(took, f"rollups.{name}")
            for name in ROLLUPS
            if all(launch.get(f"rollups.{name}") for launches in took.values() for launch in launches)
        },
    )


def _cell(key: ArmKey, launches: Sequence[Mapping[str, float]], batch: int, needed: float | None) -> Cell:
    took = [launch[STEP] for launch in launches]
    step = median_interval(took)
    speed = median_interval([batch / ms * 1000 for ms in took])
    assert step is not None
    assert speed is not None
    time = None if needed is None else median_interval([needed / batch * ms / 1000 for ms in took])
    return Cell(
        replica_groups=key.groups,
        optimizer=key.optimizer,
        scale=key.scale,
        step_ms=step,
        samples_per_s=speed,
        per_launch_ms=tuple(took),
        rollups_ms={
            name: statistics.median(launch[f"rollups.{name}"] for launch in launches)
            for name in ROLLUPS
            if all(f"rollups.{name}" in launch for launch in launches)
        },
        samples_to_target=needed,
        time_to_target_s=time,
    )


def _effects(took: Took, name: str) -> dict[str, Effect]:
    found = {}
    for m, schedule in sorted({(key.groups, key.schedule) for key in took if key.groups > 1}):
        columns = ([math.log(launch[name]) for launch in took[key]] for key in factorial(m, schedule))
        blocks = list(zip(*columns, strict=True))
        suffix = schedule.suffix
        found[f"layout.m{m}{suffix}"] = _ratio([b - a for a, b, _, _ in blocks])
        found[f"optimizer.m{m}"] = _ratio([c - a for a, _, c, _ in blocks])
        found[f"layout:optimizer.m{m}{suffix}"] = _ratio([(d - b) - (c - a) for a, b, c, d in blocks])
    return found


def _ratio(logarithms: Sequence[float]) -> Effect:
    found = geometric(logarithms)
    return Effect(estimate=found.mean, low=found.low, high=found.high)
