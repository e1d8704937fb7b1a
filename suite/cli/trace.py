"""``sparse2d trace``: where a run's step goes, by component and rank."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer
from rich.console import Console

from suite.cli.breakdown_view import show_breakdown, show_difference
from suite.cli.failures import relative
from suite.cli.memory_view import memory_body, show_memory, show_memory_difference
from suite.cli.options import Runs
from suite.cli.tables import label
from suite.cli.verb import Result, verb
from suite.components import COMPONENTS, ROLLUPS
from suite.errors import ConfigError
from suite.loading import load_attribute
from suite.metrics.components import FIGURES, component_figure
from suite.metrics.speed import typical_step_ms
from suite.record import LaunchRecord, ProfiledStep
from suite.store import RECORD, find, load

#: ``profiles`` depends on ``suite``, so it is reached by name.
READ_TRACES, TRACE_FILES, SKEW = (
    "profiles.folder:read_traces",
    "profiles.folder:trace_files",
    "profiles.skew:skew",
)


@dataclass(frozen=True)
class Profiled:
    """The profiled steps of a run: of each launch, by rank.

    Attributes:
        name: for a heading.
        launches: steps by rank.
        plain_ms: the median plain step of each rank; none for traces of others.
        sync_interval: steps from one replica sync to the next.
        traces: folders of trace files.
        notes: what a reader must know.
    """

    name: str
    launches: tuple[Mapping[int, Sequence[ProfiledStep]], ...]
    plain_ms: Mapping[int, float]
    sync_interval: int
    clock: str
    traces: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    #: Of the first launch (``suite.cli.memory_view``).
    memory: Mapping[str, Any] | None = None


@verb("trace")
def trace(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Folder, record.json or id of a run; or a folder of traces.")
    ],
    other: Annotated[str | None, typer.Argument(metavar="[RUN2]", help="A run compared with it.")] = None,
    open_with: Annotated[
        str | None,
        typer.Option("--open", metavar="VIEWER", help="Say how to look at it in tensorboard or perfetto."),
    ] = None,
    runs: Runs = Path("runs"),
) -> Result:
    """Show where a step's time goes, by component, on every rank, and what its memory is for; for two runs
    the difference.

    Every run profiles a few steps (--profile-steps), whether or not its traces were kept (--trace). Your own
    traces of training with TorchRec can be read too: name the folder that torch.profiler wrote them into.

    \b
    Examples:
      sparse2d trace 3fa1c2
      sparse2d trace 3fa1c2 9b04de --json
      sparse2d trace my_traces/
      sparse2d trace 3fa1c2 --open tensorboard
    """
    if open_with not in (None, "tensorboard", "perfetto"):
        raise ConfigError("open", open_with, "there is no such viewer.", "Use tensorboard or perfetto.")
    before = profiled(run, runs)
    body = breakdown_body(before)
    if other is not None:
        after = profiled(other, runs)
        compared = breakdown_body(after)
        difference = _difference(body, compared)
        return Result(
            {"before": body, "after": compared, "difference": difference},
            lambda console: _show_both(body, compared, difference, console),
        )
    if open_with is None:
        return Result(body, lambda console: _show(body, console))
    how = how_to_open(before, cast(Literal["tensorboard", "perfetto"], open_with))
    return Result(body | {"open": how}, lambda console: _show_lines(how, console))


def _show(body: Mapping[str, Any], console: Console) -> None:
    show_breakdown(body, console)
    if body["memory"] is not None:
        show_memory(body["memory"], console)


def _show_both(
    before: Mapping[str, Any], after: Mapping[str, Any], difference: Mapping[str, Any], console: Console
) -> None:
    show_difference(before, after, difference, console)
    if before["memory"] is not None and after["memory"] is not None:
        show_memory_difference(before["memory"], after["memory"], console)


def profiled(run: str, runs_dir: Path) -> Profiled:
    """The profiled steps of a run of the suite, or of a folder of traces.

    Raises:
        ConfigError: there is no such run, it profiled no step, or its traces cannot be read.
    """
    path = Path(run)
    if path.exists() and path.name != RECORD and not (path / RECORD).exists():
        if path.is_dir() and not load_attribute(TRACE_FILES, "trace")(path):
            raise ConfigError(
                "run",
                run,
                f"the folder holds neither a {RECORD} nor a trace.",
                "Name the folder of a run, or one with *.pt.trace.json.gz files.",
            )
        found = load_attribute(READ_TRACES, "trace")(path)
        return Profiled(run, (found.ranks,), {}, 1, found.clock, (path,), found.notes)
    folder, record = find(run, runs_dir), load(run, runs_dir)
    launches = [launch for launch in record.launches if any(rank.profile for rank in launch.ranks)]
    if not launches:
        raise ConfigError(
            "run",
            run,
            "it profiled no step.",
            "Run it again with --profile-steps 5, or name a folder of traces.",
        )
    profiles = [
        {rank.rank: rank.profile for rank in launch.ranks if rank.profile is not None} for launch in launches
    ]
    kept = [p.trace for of in profiles for p in of.values() if p.trace is not None]
    interval = record.run.sync_interval
    return Profiled(
        name=f"{record.run.workload.name} {label(record.run)} {record.run.implementation}",
        launches=tuple({rank: p.steps for rank, p in of.items()} for of in profiles),
        plain_ms=_plain_ms(launches, interval),
        sync_interval=interval,
        clock=next(iter(profiles[0].values())).clock,
        traces=tuple(dict.fromkeys((folder / trace.path).parent for trace in kept)),
        notes=tuple(
            f"{trace.path} holds {trace.steps} steps; with {trace.steps_left_out} more it were too large"
            for trace in kept
            if trace.steps_left_out
        ),
        memory=memory_body(record.run, launches[0]),
    )


def _plain_ms(launches: Sequence[LaunchRecord], sync_interval: int) -> dict[int, float]:
    """By rank, the plain step's time over launches."""
    of_ranks: dict[int, list[float]] = defaultdict(list)
    for launch in launches:
        for rank in launch.ranks:
            of_ranks[rank.rank].append(typical_step_ms(rank.step_ms, sync_interval))
    return {rank: statistics.median(times) for rank, times in of_ranks.items()}


def breakdown_body(found: Profiled) -> dict[str, Any]:
    """The document of one run: medians over steps, then over launches."""
    ranks = {str(rank): _rank_body(found, rank) for rank in found.launches[0]}
    together = {
        rank: [step for launch in found.launches for step in launch.get(rank, ())]
        for rank in found.launches[0]
    }
    skew = load_attribute(SKEW, "trace")(together)
    for rank, work in skew.work_ms.items():
        ranks[str(rank)]["work_ms"] = work
    slowest = max(ranks, key=lambda k: found.plain_ms.get(int(k), ranks[k]["step_ms"]))
    return {
        "name": found.name,
        "launches": len(found.launches),
        "steps": min(len(steps) for launch in found.launches for steps in launch.values()),
        "slowest_rank": int(slowest),
        "ranks": ranks,
        "imbalance": skew.imbalance,
        "straggler": {"rank": skew.straggler, "component": skew.component, "late_ms": skew.late_ms},
        "rank_bytes": {k: _total(body["components"], "bytes") for k, body in ranks.items()},
        "clock": found.clock,
        "traces": [relative(folder) for folder in found.traces],
        "notes": list(found.notes),
        "memory": found.memory,
    }


def _rank_body(found: Profiled, rank: int) -> dict[str, Any]:
    launches = [launch[rank] for launch in found.launches if launch.get(rank)]

    def over_launches(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known and len(known) == len(values) else None

    components = {
        name: {
            of: over_launches([component_figure(steps, name, of, found.sync_interval) for steps in launches])
            for of in FIGURES
        }
        for name in COMPONENTS
    }
    step_ms = over_launches(
        [typical_step_ms([s.step_ms for s in steps], found.sync_interval) for steps in launches]
    )
    other = [statistics.median(s.components["other"].exposed_ms / s.step_ms for s in x) for x in launches]
    return {
        "step_ms": step_ms,
        "plain_step_ms": found.plain_ms.get(rank),
        "components": components,
        "rollups": {
            name: sum(components[part]["exposed_ms"] or 0.0 for part in parts)
            for name, parts in ROLLUPS.items()
        },
        "other_share": over_launches(other),
    }


def _total(components: Mapping[str, Mapping[str, float | None]], figure: str) -> float | None:
    """The sum over components that communicate; unknown if one of them is."""
    found = [of[figure] for of in components.values() if of["calls"] is not None]
    return sum(x for x in found if x is not None) if None not in found else None


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """By component, exposed milliseconds of the slowest rank of each: after minus before."""
    one, other = (body["ranks"][str(body["slowest_rank"])] for body in (before, after))
    return {
        "step_ms": other["step_ms"] - one["step_ms"],
        "components": {
            name: other["components"][name]["exposed_ms"] - one["components"][name]["exposed_ms"]
            for name in COMPONENTS
        },
    }


def how_to_open(found: Profiled, viewer: Literal["tensorboard", "perfetto"]) -> list[str]:
    """What to do, a line each.

    Raises:
        ConfigError: no trace was kept.
    """
    if not found.traces:
        raise ConfigError(
            "run", found.name, "its traces were not kept.", "Run it again with --trace, or --trace slowest."
        )
    files = [file for folder in found.traces for file in load_attribute(TRACE_FILES, "trace")(folder)]
    if viewer == "perfetto":
        return [
            "Open https://ui.perfetto.dev, choose 'Open trace file', and take one of:",
            *(f"  {relative(file)}" for file in files),
            "The file stays on your machine: Perfetto's page reads it in the browser.",
        ]
    where = {f.parent if f.name.startswith("launch") else f for f in found.traces}
    return [
        "pip install tensorboard torch-tb-profiler (the extra [trace]), then:",
        *(f"  tensorboard --logdir {relative(folder)}" for folder in sorted(where)),
        "Each folder of traces is a run there, each rank a worker; its tab is called PYTORCH_PROFILER.",
    ]


def _show_lines(lines: Sequence[str], console: Console) -> None:
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
