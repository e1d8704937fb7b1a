"""Progress on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from suite.cli.tables import label
from suite.spec import RunSpec

if TYPE_CHECKING:
    from suite.launchers.base import Progress

Report = Callable[[int, "Progress"], None]

#: Plain lines say how far training is this many times a launch.
PARTS = 2


@contextmanager
def shown(runs: Sequence[RunSpec], console: Console) -> Iterator[Report]:
    """Shows how far each of several runs is; it is told the run's place and its launcher's progress."""
    if not console.is_terminal:
        yield _lines(runs, console)
        return
    with _bars(console) as bars:
        task = bars.add_task("", total=None)

        def report(index: int, progress: Progress) -> None:
            bars.update(
                task,
                description=_description(runs, index, progress),
                completed=progress.step,
                total=progress.steps or None,
            )

        yield report


def _bars(console: Console) -> Bars:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Bars(*columns, console=console, transient=True)


def _lines(runs: Sequence[RunSpec], console: Console) -> Report:
    """One line where a phase begins and where a part of it is done."""
    last: tuple[object, ...] = ()

    def report(index: int, progress: Progress) -> None:
        nonlocal last
        part = progress.step * PARTS // progress.steps if progress.steps >= PARTS else 0
        now = (index, progress.launch, progress.phase, part)
        if now != last:
            last = now
            steps = f" {progress.step}/{progress.steps}" if progress.steps else ""
            console.print(f"{_description(runs, index, progress)}{steps}", markup=False, soft_wrap=True)

    return report


def _description(runs: Sequence[RunSpec], index: int, progress: Progress) -> str:
    run = runs[index]
    place = f"[{index + 1}/{len(runs)}] " if len(runs) > 1 else ""
    launch = f"launch {progress.launch + 1}/{run.launches} " if run.launches > 1 else ""
    return f"{place}{run.workload.name} {label(run)}: {launch}{progress.phase}"


@contextmanager
def counted(what: str, console: Console) -> Iterator[Callable[[int, int], None]]:
    """Shows how many of how many are done; it is told both."""
    if not console.is_terminal:
        yield lambda done, total: console.print(f"{what} {done}/{total}", markup=False)
        return
    with _bars(console) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
