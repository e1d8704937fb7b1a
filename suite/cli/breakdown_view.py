"""How a breakdown looks: a tree with bars, a branch a rank. Fits 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from suite.cli.tables import ABSENT, measured, number, size, table
from suite.components import COMMUNICATION, COMPONENTS

BAR = 14
#: More ranks than this are not all shown, but the slowest, the straggler and the one with the least work.
MOST_RANKS = 8
#: Medians that add up to the step's but for this share of it are not remarked on.
ROUNDING = 0.1
EIGHTHS = " ▏▎▍▌▋▊▉█"


def show_breakdown(body: Mapping[str, Any], console: Console) -> None:
    """The tree of one run, and what stands out below it."""
    shown = _ranks_shown(body)
    heading = f"{body['name']}: {body['steps']} profiled steps"
    tree = Tree(Text(heading, style="bold"))
    for rank in shown:
        _add_rank(tree, rank, body)
    console.print(tree)
    if len(shown) < len(body["ranks"]):
        console.print(f"{len(body['ranks']) - len(shown)} more ranks are in --json.")
    for line in _remarks(body):
        console.print(line, markup=False, soft_wrap=True)


def show_difference(
    before: Mapping[str, Any], after: Mapping[str, Any], difference: Mapping[str, Any], console: Console
) -> None:
    """Two runs' slowest ranks side by side, exposed milliseconds."""
    one, other = (body["ranks"][str(body["slowest_rank"])] for body in (before, after))
    console.print(f"before: {before['name']}", markup=False, soft_wrap=True)
    console.print(f"after:  {after['name']}", markup=False, soft_wrap=True)
    made = table("exposed ms on the slowest rank", "before", "after", "difference")
    for name in COMPONENTS:
        a, b = (of["components"][name]["exposed_ms"] for of in (one, other))
        if a or b:
            made.add_row(name, measured(a), measured(b), _signed(difference["components"][name]))
    made.add_section()
    made.add_row("step", measured(one["step_ms"]), measured(other["step_ms"]), _signed(difference["step_ms"]))
    console.print(made)


def bar(share: float, width: int = BAR) -> str:
    """A bar of a share of 1, in eighths of a character."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (EIGHTHS[part] if part else "")).ljust(width)


def _ranks_shown(body: Mapping[str, Any]) -> list[str]:
    ranks = list(body["ranks"])
    slowest = str(body["slowest_rank"])
    if len(ranks) > MOST_RANKS:
        work = {k: of["work_ms"] for k, of in body["ranks"].items() if of["work_ms"] is not None}
        kept = {slowest, str(body["straggler"]["rank"]), min(work, key=lambda k: work[k], default=slowest)}
        ranks = [rank for rank in ranks if rank in kept]
    return [slowest, *(rank for rank in ranks if rank != slowest)]


def _add_rank(tree: Tree, rank: str, body: Mapping[str, Any]) -> None:
    of = body["ranks"][rank]
    by = " in plain steps" if of["plain_step_ms"] else ""
    mark = f" (slowest{by})" if rank == str(body["slowest_rank"]) and len(body["ranks"]) > 1 else ""
    branch = tree.add(Text(f"rank {rank}{mark}: {measured(of['step_ms'])} ms a step", style="bold"))
    for name in COMPONENTS:
        figures = of["components"][name]
        if not figures["busy_ms"] and name != "other":
            continue
        share = figures["exposed_ms"] / of["step_ms"]
        line = Text(f"{name:<25} ")
        line.append(bar(share), style="cyan" if name in COMMUNICATION else "green")
        line.append(f" {measured(figures['exposed_ms']):>6} ms {share:>6.1%}")
        leaf = branch.add(line)
        if figures["calls"]:
            leaf.add(
                f"wait {_ms(figures['wait_ms'])}, transfer {_ms(figures['transfer_ms'])}, "
                f"{size(figures['wire_bytes'])} on the wire, {number(figures['calls'])} "
                + ("call" if figures["calls"] == 1 else "calls")
            )


def _remarks(body: Mapping[str, Any]) -> Iterator[str]:
    straggler = body["straggler"]
    if body["imbalance"] is not None:
        yield f"Imbalance: {body['imbalance']:.2f} (a rank's most work over the mean, waits left out)"
        yield (
            f"Straggler: rank {straggler['rank']}, late in {straggler['component']} "
            f"({straggler['late_ms']:+.2f} ms to the others)"
        )
    slowest = body["ranks"][str(body["slowest_rank"])]
    shown = sum(of["exposed_ms"] for of in slowest["components"].values())
    if abs(shown - slowest["step_ms"]) > ROUNDING * slowest["step_ms"]:
        yield (
            f"Note: steps differ. Each figure is a median over steps of its own, so that those of rank "
            f"{body['slowest_rank']} add up to {measured(shown)} of {measured(slowest['step_ms'])} ms."
        )
    if slowest["plain_step_ms"]:
        yield (
            f"Cost of looking: a profiled step takes {slowest['step_ms'] / slowest['plain_step_ms']:.2f}x "
            f"a plain one ({measured(slowest['plain_step_ms'])} ms)"
        )
    if body["clock"] == "aligned_steps":
        yield "Note: ranks on several hosts; waits are good to a network round trip (docs/traces.md)."
    for note in body["notes"]:
        yield f"Note: {note}."


def _ms(value: float | None) -> str:
    return ABSENT if value is None else f"{measured(value)} ms"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{measured(value)}"
