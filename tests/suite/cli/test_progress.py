from __future__ import annotations

import io

from rich.console import Console

from suite.cli.progress import shown
from suite.launchers.base import Progress
from tests.helpers.records import make_run

RUNS = [make_run(), make_run(layout={"world_size": 4, "replica_groups": 2}, launches=2)]


def reported(is_terminal: bool) -> str:
    out = io.StringIO()
    with shown(RUNS, Console(file=out, force_terminal=is_terminal, width=80)) as report:
        report(0, Progress(0, "start", 0, 0))
        for step in range(1, 101):
            report(0, Progress(0, "train", step, 100))
        report(0, Progress(0, "evaluate", 1, 1))
        report(1, Progress(1, "build", 0, 0))
    return out.getvalue()


def test_plain_lines_are_few_and_say_where_it_is():
    assert reported(is_terminal=False).splitlines() == [
        "[1/2] tiny 1D T=2: start",
        "[1/2] tiny 1D T=2: train 1/100",
        "[1/2] tiny 1D T=2: train 50/100",
        "[1/2] tiny 1D T=2: train 100/100",
        "[1/2] tiny 1D T=2: evaluate 1/1",
        "[2/2] tiny 2D T=4 M=2: launch 2/2 build",
    ]


def test_a_terminal_shows_a_bar():
    text = reported(is_terminal=True)
    assert "━" in text
    assert "\x1b[" in text
