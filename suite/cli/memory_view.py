"""What ``sparse2d trace`` says of memory: a document for ``--json``, and how it looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from suite.cli.breakdown_view import bar
from suite.cli.tables import size, table
from suite.components import COMPONENTS
from suite.memory_categories import CATEGORIES
from suite.record import LaunchRecord, MemoryRecord


def memory_body(launch: LaunchRecord) -> dict[str, Any] | None:
    """The memory of every rank of a launch, in bytes; None where it was not profiled."""
    ranks = {str(rank.rank): found for rank in launch.ranks if (found := _rank_body(rank.memory)) is not None}
    if not ranks:
        return None
    return {"largest_rank": int(max(ranks, key=lambda k: ranks[k]["allocated_peak"])), "ranks": ranks}


def _rank_body(memory: MemoryRecord) -> dict[str, Any] | None:
    profile = memory.profile
    if profile is None:
        return None
    return {
        "allocated_peak": profile.allocated_peak,
        "peak_component": profile.peak_component,
        "at_peak": dict(profile.at_peak),
        "largest": dict(profile.largest),
        "by_component": {c: sum(held.values()) for c, held in profile.by_component.items()},
        "process": memory.process,
        "process_source": memory.process_source,
        "reserved_peak": memory.reserved_peak,
    }


def show_memory(body: Mapping[str, Any], console: Console) -> None:
    """By category on the rank that allocates most; and below, component by component over the step."""
    rank = body["largest_rank"]
    of = body["ranks"][str(rank)]
    made = table(f"memory of rank {rank}", "at the peak", "largest")
    for name in CATEGORIES:
        made.add_row(name, size(of["at_peak"][name]), size(of["largest"][name]))
    made.add_section()
    made.add_row("allocated", size(of["allocated_peak"]), "")
    made.add_row("process", size(of["process"]), "")
    console.print()
    console.print(made)
    console.print(f"The peak is in {of['peak_component']}. Process: {of['process_source']}.", soft_wrap=True)
    over = table("largest while the step is in", "", "allocated", left=2)
    for component in COMPONENTS:
        if component in of["by_component"]:
            held = of["by_component"][component]
            over.add_row(component, bar(held / of["allocated_peak"]), size(held))
    console.print()
    console.print(over)


def show_memory_difference(before: Mapping[str, Any], after: Mapping[str, Any], console: Console) -> None:
    """Two runs' largest ranks side by side."""
    one, other = (body["ranks"][str(body["largest_rank"])] for body in (before, after))
    made = table("memory at the peak of the largest rank", "before", "after", "difference")

    def add(name: str, a: int, b: int) -> None:
        made.add_row(name, size(a), size(b), f"{'+' if b > a else ''}{size(b - a)}")

    for name in CATEGORIES:
        add(name, one["at_peak"][name], other["at_peak"][name])
    made.add_section()
    add("allocated", one["allocated_peak"], other["allocated_peak"])
    console.print()
    console.print(made)
