"""``sparse2d doctor``: what this machine and installation can run, and what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from suite.cli.failures import BAD_INPUT
from suite.cli.options import Runs
from suite.cli.streams import messages
from suite.cli.tables import table
from suite.cli.verb import Result, verb
from suite.doctor import Check, examine

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@verb("doctor")
def doctor(runs: Runs = Path("runs")) -> Result:
    """Look at the installation and the machine, and say what to do about what is wrong.

    Exit code 2 if something that every run needs is broken; warnings alone end with 0.

    \b
    Examples:
      sparse2d doctor
      sparse2d doctor --json
    """
    with messages().status("Importing torch, FBGEMM and TorchRec"):
        checks = list(examine(runs))
    broken = [check for check in checks if check.status == "fail"]
    body: dict[str, Any] = {"checks": [check.model_dump() for check in checks]}
    if broken:
        body["error"] = {
            "kind": "environment",
            "field": broken[0].name,
            "value": None,
            "message": broken[0].message,
            "remedy": broken[0].remedy,
        }
    return Result(body, lambda console: _show(checks, console), exit_code=BAD_INPUT if broken else 0)


def _show(checks: list[Check], console: Console) -> None:
    made = table("", "", "", left=3)
    made.show_header = False
    for check in checks:
        text = check.message if check.remedy is None else f"{check.message}\n{check.remedy}"
        made.add_row(check.name, f"[{COLOURS[check.status]}]{check.status}[/]", text)
    console.print(made)
