"""How figures and tables look. Tables fit 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from suite.cli.documents import QUALITY, summary
from suite.compare import Comparison, MetricComparison
from suite.environment import EnvironmentDifference
from suite.record import TableSharding
from suite.session import SWEEP_1D, Outcome
from suite.spec import RunSpec
from suite.statistics import Interval, Verdict

ABSENT = "-"
_DECIMAL = re.compile(r"([+-]?\d+\.\d+)")
SIZES = ("memory.process", "wire_bytes")
COLOURS: Mapping[Verdict, str] = {
    "better": "green",
    "equivalent": "green",
    "worse": "red",
    "inconclusive": "yellow",
    "incomparable": "magenta",
    "did_not_run": "red",
}


def table(*headings: str, left: int = 1) -> Table:
    """An empty table; columns after the first ``left`` ones hold figures and are set flush right.

    The first ones hold names, of which a narrow terminal takes nothing away: it has them on two lines.
    """
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for position, heading in enumerate(headings):
        name = position < left
        made.add_column(heading, justify="left" if name else "right", overflow="fold" if name else "ellipsis")
    return made


def number(value: float | None) -> str:
    """Whole numbers whole, with separators; others to three significant digits: 4,567, 457, 45.7, 4.57."""
    if value is None:
        return ABSENT
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return measured(value)


def measured(value: float) -> str:
    """Three significant digits, also where they are zeros: 4.50, 12.0, 1,234."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def interval(found: Interval | None) -> str:
    """``12.3 [11.9, 13.0]``; the median alone with one launch."""
    if found is None:
        return ABSENT
    if found.low is None or found.high is None:
        return measured(found.median)
    return f"{measured(found.median)} [{measured(found.low)}, {measured(found.high)}]"


def size(value: float | None) -> str:
    """Bytes in the binary unit that fits, to three significant digits."""
    if value is None:
        return ABSENT
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while abs(value) >= 1000 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{number(value)} {units[0]}"


def label(run: RunSpec) -> str:
    """A configuration in few letters: ``1D T=4``, ``2D T=4 M=2``, ``2D T=4 M=2 k=8 delayed``."""
    layout = run.layout
    if layout.replica_groups == 1:
        return f"1D T={layout.world_size}"
    interval = "" if run.sync_interval == 1 else f" k={run.sync_interval}"
    state = "" if run.sync_optimizer_state == "immediate" else f" {run.sync_optimizer_state}"
    return f"2D T={layout.world_size} M={layout.replica_groups}{interval}{state}"


def in_words(sharding: Sequence[TableSharding]) -> str:
    """``row_wise user, item; data_parallel hour``."""
    kinds: dict[str, list[str]] = {}
    for table in sharding:
        kinds.setdefault(table.sharding, []).append(table.table)
    return "; ".join(f"{kind} {', '.join(tables)}" for kind, tables in kinds.items())


def runs_table(outcomes: Sequence[Outcome]) -> Table:
    """Configurations of one workload side by side, 2D beside 1D at the same world size.

    A configuration without a finished launch has a row that says so.
    """
    speeds = {
        outcome.run.layout.world_size: found.median
        for outcome in outcomes
        if outcome.run.layout.replica_groups == 1 and (found := summary(outcome.record, "samples_per_s"))
    }
    headings = ["", "samples/s", "step ms", "peak\nmemory", "on wire\na step", "AUC"]
    made = table(*headings, *(["speed\nof 1D"] if len(outcomes) > 1 else []))
    for outcome in outcomes:
        record = outcome.record
        speed, auc = summary(record, "samples_per_s"), summary(record, "auc")
        one_d = speeds.get(outcome.run.layout.world_size)
        if speed is None:
            made.add_row(label(outcome.run), "[red]failed[/red]")
            continue
        cells = (
            label(outcome.run),
            number(speed.median),
            interval(summary(record, "step_ms")),
            *(size(found.median if (found := summary(record, m)) else None) for m in SIZES),
            ABSENT if auc is None else f"{auc.median:.4f}",
            ABSENT if one_d is None else f"{speed.median / one_d:.2f}x",
        )
        made.add_row(*cells[: len(made.columns)])
    return made


def show_runs(outcomes: Sequence[Outcome], console: Console) -> None:
    """One workload's table, what it is about above it, and what to beware of below."""
    first = outcomes[0].run
    devices = sorted({outcome.run.device for outcome in outcomes})
    batches = sorted({outcome.run.global_batch for outcome in outcomes})
    console.print(
        f"[bold]{first.workload.name}[/bold]  measured on {', '.join(devices)}; global batch "
        f"{', '.join(f'{b:,}' for b in batches)} ({first.scaling} scaling); spec {first.workload.spec_hash}"
        f"{''.join(f'; {choice}' for choice in _choices([outcome.run for outcome in outcomes]))}",
        soft_wrap=True,
    )
    console.print(runs_table(outcomes))
    for note in _notes([outcome for outcome in outcomes if outcome.record is not None]):
        console.print(f"Note: {note}", markup=False, soft_wrap=True)


def _choices(runs: Sequence[RunSpec]) -> Iterable[str]:
    """How the runs were made, where it is not what a run does by itself."""
    usual = {RunSpec.model_fields["implementation"].default, *([SWEEP_1D] if len(runs) > 1 else [])}
    yield from sorted({run.implementation for run in runs} - usual)
    defaults, first = runs[0].workload.defaults, runs[0]
    if first.optimizer.name != defaults.optimizer.name:
        yield first.optimizer.name
    by_table = [f"{table} {kind}" for table, kind in first.layout.sharding_by_table.items()]
    if by_table or first.layout.sharding != defaults.sharding:
        yield ", ".join([first.layout.sharding, *by_table])


def _notes(outcomes: Sequence[Outcome]) -> Iterable[str]:
    """What a reader must know before believing the figures."""
    meaning = {
        "oversubscribed": "more ranks than cores take turns, which hides what the layout does to step time",
        "cluster_in_a_box": "hosts, links and shares of a core are emulated on one machine",
        "busy": "other programs used the cores before it began",
        "dirty_tree": "the suite's own checkout had uncommitted changes",
    }
    for flag, text in meaning.items():
        concerned = [
            label(o.run) for o in outcomes if o.record is not None and flag in o.record.environment.flags
        ]
        if concerned:
            where = "all" if len(concerned) == len(outcomes) > 1 else ", ".join(concerned)
            yield f"{flag} ({where}): {text}."
    yield from sorted({_one_d(o.run) for o in outcomes if o.run.layout.replica_groups == 1})
    for outcome in outcomes:
        if outcome.record is not None and outcome.run.layout.is_planned:
            yield f"{label(outcome.run)}: planned by TorchRec as {in_words(outcome.record.sharding)}."
    splits = {
        tuple(sorted(o.record.column_shards.items()))
        for o in outcomes
        if o.record is not None and o.run.columns_matter
    }
    if len(splits) > 1:
        yield (
            "columns are cut into unlike numbers of shards, and a row-wise optimizer keeps a moment for "
            "each: the AUC compares optimizers, too."
        )
    records = [o.record for o in outcomes if o.record is not None]
    finished = [launch for record in records for launch in record.launches if launch.status == "complete"]
    if finished and all(launch.quality is None for launch in finished):
        yield "no AUC: the data source holds out no samples to evaluate."
    told = [launch.data.get("bayes_auc") for launch in finished]
    best = sorted({auc for auc in told if isinstance(auc, float)})
    if best:
        yield (
            f"the best AUC to expect here is {' or '.join(f'{auc:.4f}' for auc in best)}, the planted "
            "model's own."
        )
    intervals = [found for record in records if (found := summary(record, "step_ms"))]
    confidences = sorted({f"{i.confidence:.0%}" for i in intervals if i.confidence is not None})
    if confidences:
        yield f"[low, high] holds the median over launches with {' or '.join(confidences)} confidence."
    if any(i.confidence is None for i in intervals):
        yield "one launch has no interval; --launches 5 or more shows the spread."


def _one_d(run: RunSpec) -> str:
    """Which 1D it was: there are stronger and weaker ones."""
    otherwise = "".join(f", {table} {kind}" for table, kind in run.layout.sharding_by_table.items())
    return (
        f"1D is {run.implementation}, tables {run.layout.sharding}{otherwise}, "
        f"vectors exchanged in {run.exchange_dtype}, pipeline {run.pipeline}."
    )


def comparison_table(rows: Sequence[MetricComparison]) -> Table:
    """Metric by metric: both sides, their ratio with its interval, the verdict."""
    made = table("metric", "before", "after", "ratio", "verdict")
    for row in rows:
        quality = row.name in QUALITY
        shown = (
            (ABSENT if v is None else f"{v:.5f}")
            if quality
            else size(v)
            if row.unit.startswith("B")
            else number(v)
            for v in (row.before, row.after)
        )
        made.add_row(row.name, *shown, _ratio(row), f"[{COLOURS[row.verdict]}]{row.verdict}[/]")
    return made


def show_comparison(comparison: Comparison, console: Console) -> None:
    """What differs, the metrics, why, and the verdict last."""
    for difference in comparison.differences:
        console.print(
            f"{difference.field}: {difference.before} -> {difference.after}", markup=False, soft_wrap=True
        )
    console.print(comparison_table(comparison.metrics))
    for line in _reasons([row for row in comparison.metrics if row.reason not in comparison.reason]):
        console.print(line, markup=False, soft_wrap=True)
    for note in comparison.notes:
        console.print(f"Note: {note}.", markup=False, soft_wrap=True)
    colour = COLOURS[comparison.verdict]
    console.print(f"Verdict: [bold {colour}]{comparison.verdict}[/]", end=" ")
    console.print(f"({comparison.reason})", markup=False, soft_wrap=True)


def _reasons(rows: Sequence[MetricComparison]) -> Iterable[str]:
    """One sentence for all rows whose reasons differ in nothing but decimals, which stand side by side."""
    alike: dict[str, list[MetricComparison]] = {}
    for row in rows:
        alike.setdefault(_DECIMAL.sub("", row.reason), []).append(row)
    for same in alike.values():
        names = [row.name for row in same]
        shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
        parts = zip(*(_DECIMAL.split(row.reason) for row in same), strict=True)
        yield f"{', '.join(shown)}: {''.join(' / '.join(dict.fromkeys(part)) for part in parts)}"


def show_environment_differences(differences: Sequence[EnvironmentDifference], console: Console) -> None:
    """One line a fact that the two environments do not share."""
    if not differences:
        console.print("The environment is the same.")
    for difference in differences:
        console.print(
            f"environment.{difference.field}: {difference.before} -> {difference.after}",
            markup=False,
            soft_wrap=True,
        )


def _ratio(row: MetricComparison) -> str:
    if row.ratio is None:
        return ABSENT
    if row.low is None or row.high is None:
        return f"{row.ratio:.3f}"
    return f"{row.ratio:.3f}\n[{row.low:.3f}, {row.high:.3f}]"
