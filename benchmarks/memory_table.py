"""Memory by category of several runs side by side, each on the rank that allocates most, as a table.

Beside what was measured stands what is modelled (``suite/memory_model.py``). Runs that were not profiled are
left out.

    python -m benchmarks.memory_table runs/dlrm_small/*/*
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from suite.cli.memory_view import memory_body
from suite.cli.tables import label, size, table
from suite.memory_categories import CATEGORIES
from suite.store import load


def main() -> None:
    """Reads the runs and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", help="folders of runs, or their record.json")
    options = parser.parse_args()
    found = [of for name in options.runs if (of := _largest(name)) is not None]
    found.sort(key=lambda of: of["order"])
    made = table("", *(of["label"] for of in found))
    for category in CATEGORIES:
        made.add_row(category, *(size(of["at_peak"][category]) for of in found))
    made.add_section()
    made.add_row("allocated", *(size(of["allocated_peak"]) for of in found))
    made.add_row("modelled", *(size(of["modelled"]["allocated_peak"]) for of in found))
    made.add_row("process", *(size(of["process"]) for of in found))
    made.add_row("the peak is in", *(of["peak_component"] for of in found))
    Console(width=40 + 24 * len(found)).print(made)


def _largest(name: str) -> dict[str, Any] | None:
    record = load(name, Path("runs"))
    body = memory_body(record.run, record.launches[0])
    if body is None:
        return None
    layout = record.run.layout
    return body["ranks"][str(body["largest_rank"])] | {
        "label": label(record.run).replace(" ", "\n"),
        "order": (layout.world_size, layout.replica_groups),
    }


if __name__ == "__main__":
    main()
