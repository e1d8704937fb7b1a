"""What ``sparse2d trace`` says of memory: a document for ``--json``, and how it looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from suite.cli.breakdown_view import bar
from suite.cli.tables import size, table
from suite.components import COMPONENTS
from suite.memory_categories import CATEGORIES
from suite.memory_model import Modelled, modelled
from suite.record import LaunchRecord, MemoryProfile, MemoryRecord
from suite.spec import RunSpec


def memory_body(run: RunSpec, launch: LaunchRecord) -> dict[str, Any] | None:
    """The memory of every rank of a launch, in bytes; None where it was not profiled."""
    ranks = {
        str(rank.rank): _rank_body(
            rank.memory, rank.memory.profile, modelled(run, launch.sharding, rank.rank)
        )
        for rank in launch.ranks
        if rank.memory.profile is not None
    }
    if not ranks:
        return None
    return {"largest_rank": int(max(ranks, key=lambda k: ranks[k]["allocated_peak"])), "ranks": ranks}


def _rank_body(memory: MemoryRecord, profile: MemoryProfile, model: Modelled) -> dict[str, Any]:
    return {
        "allocated_peak": profile.allocated_peak,
        "peak_component": profile.peak_component,
        "at_peak": dict(profile.at_peak),
        "largest": dict(profile.largest),
        "unseen_frees": profile.unseen_frees,
        "by_component": {c: sum(held.values()) for c, held in profile.by_component.items()},
        "process": memory.process,
        "process_source": memory.process_source,
        "reserved_peak": memory.reserved_peak,
        # Of a GPU: the CUDA context and what libraries take beside PyTorch's allocator.
        "outside_allocator": None if memory.reserved_peak is None else memory.process - memory.reserved_peak,
        "modelled": {
            "at_peak": model.at_peak,
            "allocated_peak": None if model.reason else sum(v or 0 for v in model.at_peak.values()),
            "peak_component": model.peak_component,
            "reason": model.reason,
        },
    }


def show_memory(body: Mapping[str, Any], console: Console) -> None:
    """By category on the rank that allocates most; and below, component by component over the step."""
    rank = body["largest_rank"]
    of = body["ranks"][str(rank)]
    model = of["modelled"]
    made = table(f"memory of rank {rank}", "at the peak", "modelled", "largest")
    for name in CATEGORIES:
        made.add_row(name, *(size(held[name]) for held in (of["at_peak"], model["at_peak"], of["largest"])))
    made.add_section()
    made.add_row("allocated", size(of["allocated_peak"]), size(model["allocated_peak"]))
    for total in ("reserved_peak", "outside_allocator", "process"):
        if of[total] is not None:
            made.add_row(total, size(of[total]))
    console.print()
    console.print(made)
    where = f"The peak is in {of['peak_component']}"
    if model["reason"]:
        where += f"; it is not modelled: {model['reason']}"
    elif model["peak_component"] != of["peak_component"]:
        where += f", modelled in {model['peak_component']}"
    console.print(f"{where}. Process: {of['process_source']}.", markup=False, soft_wrap=True)
    over = table("largest while the step is in", "", "allocated", left=2)
    for component in COMPONENTS:
        if component in of["by_component"]:
            held = of["by_component"][component]
            over.add_row(component, bar(held / of["allocated_peak"]), size(held))
    console.print()
    console.print(over)
    if quiet := [c for c in COMPONENTS if c not in of["by_component"]]:
        console.print(f"No allocation is seen in: {', '.join(quiet)}.", markup=False)


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
