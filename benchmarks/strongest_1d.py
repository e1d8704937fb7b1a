"""Which 1D is the fastest here, and what 2D is beside that one.

Each way that the suite offers to make TorchRec's 1D faster: the type of sharding by hand, TorchRec's planner,
small tables data-parallel, vectors that travel in 16 bits, the pipeline; and 2D with the same switches.
Launches take turns over all of them, so that drift falls on all alike; each launch is one sample.

    python -m benchmarks.strongest_1d dlrm_small --world-size 2 --launches 5

The records stay under ``--runs``, to be compared with ``sparse2d compare``.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from suite import session
from suite.catalog import load_workload
from suite.cli.options import RunOptions
from suite.cli.tables import interval, size, table
from suite.errors import ConfigError, SuiteError
from suite.metrics import METRICS
from suite.record import RunRecord
from suite.spec import RunSpec, WorkloadSpec
from suite.statistics import median_interval

#: A table of at most this many rows is one of the small ones.
SMALL_ROWS = 10_000


@dataclass
class Side:
    """One configuration and what its launches gave."""

    name: str
    run: RunSpec
    same_numbers: bool = True
    records: list[RunRecord] = field(default_factory=list)

    def values(self, metric: str) -> list[float]:
        """One value of a metric for each finished launch."""
        return [value for record in self.records for value in METRICS[metric].values(record)]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload")
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--replica-groups", type=int, default=2)
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    options = parser.parse_args()
    console = Console()
    sides = _offered(load_workload(options.workload), options, console)
    _launch_in_turns(sides, options.launches, options.runs, console)
    _show(sides, console)
    one_d = [side for side in sides if side.run.layout.replica_groups == 1 and side.same_numbers]
    measured = [(found.median, side) for side in one_d if (found := median_interval(side.values("step_ms")))]
    if measured:
        console.print(f"\nThe strongest 1D in 32 bits here: {min(measured, key=lambda one: one[0])[1].name}.")


def _offered(workload: WorkloadSpec, options: argparse.Namespace, console: Console) -> list[Side]:
    """The sides that this workload and device can have; what is refused is said and left out."""
    small = [t.name for t in workload.tables if t.rows <= SMALL_ROWS and t.pooling != "none"]
    beside = "".join(f",{name}=data_parallel" for name in small)
    ways: list[tuple[str, Mapping[str, str], bool]] = [
        ("table_wise", {"sharding": "table_wise"}, True),
        ("row_wise", {"sharding": "row_wise"}, True),
        ("column_wise", {"sharding": "column_wise"}, True),
        ("planned", {"sharding": "planned"}, True),
        ("table_wise, pipeline", {"sharding": "table_wise", "pipeline": "sparse_dist"}, True),
        ("table_wise, fp16 exchange", {"sharding": "table_wise", "exchange_dtype": "fp16"}, False),
    ]
    if small and len(small) < len(workload.tables):
        mixed = "table_wise" + beside
        ways.append((f"table_wise, {len(small)} small tables data_parallel", {"sharding": mixed}, True))
        ways.append(("the same, pipeline", {"sharding": mixed, "pipeline": "sparse_dist"}, True))
    sides = []
    for name, switches, same in ways:
        for groups in (1, options.replica_groups):
            made = RunOptions(
                implementation=session.SWEEP_1D if groups == 1 else None,
                steps=options.steps,
                device=options.device,
                profile_steps=0,
                **switches,  # type: ignore[arg-type]
            )
            label = f"1D {name}" if groups == 1 else f"2D M={groups} {name}"
            try:
                run = made.build(workload, options.world_size, groups)
                session.check(run)
            except ConfigError as refused:
                console.print(f"Left out: {label}: {refused.report.message}", markup=False)
                continue
            sides.append(Side(label, run, same))
    return sides


def _launch_in_turns(sides: Sequence[Side], launches: int, runs: Path, console: Console) -> None:
    """One launch of every side, then the next round in the opposite order."""
    for launch in range(launches):
        for side in sides if launch % 2 == 0 else list(reversed(sides)):
            launcher = session.open_launcher(side.run.launcher)
            try:
                record, _ = session.run_one(side.run, runs, launcher, lambda _: None)
            except SuiteError as failed:
                console.print(f"{side.name}: {failed.report.message}", markup=False)
                continue
            side.records.append(record)
            if record.error is not None:
                console.print(f"{side.name}: {record.error.message}", markup=False)
        console.print(f"round {launch + 1} of {launches}", style="dim")


def _show(sides: Sequence[Side], console: Console) -> None:
    """One row a side: 1D, then 2D, the fastest first."""
    made = table("", "step ms", "on wire a step", "AUC")
    ordered = sorted(
        (side for side in sides if side.values("step_ms")),
        key=lambda side: (side.run.layout.replica_groups, statistics.median(side.values("step_ms"))),
    )
    for side in ordered:
        bytes_ = side.values("wire_bytes")
        auc = side.values("auc")
        made.add_row(
            side.name,
            interval(median_interval(side.values("step_ms"))),
            size(bytes_[0]) if bytes_ else "-",
            f"{auc[0]:.4f}" if auc else "-",
        )
    console.print(made)


if __name__ == "__main__":
    main()
