"""Draws what ``sparse2d trace RUN`` prints, as an SVG for the docs.

python -m benchmarks.trace_picture RUN docs/trace.svg
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from rich.console import Console

from suite.cli.breakdown_view import show_breakdown
from suite.cli.trace import breakdown_body, profiled


def main() -> None:
    """Reads the run and writes the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="folder, record.json or id of a run, or a folder of traces")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    options = parser.parse_args()
    console = Console(record=True, width=80, file=io.StringIO(), highlight=False)
    show_breakdown(breakdown_body(profiled(options.run, options.runs)), console)
    options.picture.write_text(console.export_svg(title="sparse2d trace"), encoding="utf-8")


if __name__ == "__main__":
    main()
