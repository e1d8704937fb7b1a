"""How fast Criteo's text is made into its binary copy, and in how much memory: a million generated lines.

    python -m benchmarks.criteo

The lines are random and in the exact format, 50,000 of them repeated. Reading takes one process and one
thread, and includes the SHA-256 of everything read and written; with ``--frequency-threshold`` values are
counted as well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINES = 50_000


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=20, help=f"times {LINES:,} lines")
    parser.add_argument("--frequency-threshold", type=int, default=0)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read is not None:
        _read(options.read, options.frequency_threshold)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        _write(path, options.repeat)
        size = path.stat().st_size
        threshold = str(options.frequency_threshold)
        command = [sys.executable, "-m", "benchmarks.criteo", "--frequency-threshold", threshold]
        process = subprocess.Popen([*command, "--read", folder], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status):
            sys.exit(f"reading failed: {printed}")
        took = json.loads(printed)
    lines = LINES * options.repeat
    print(
        f"{lines:,} lines, {size / 2**20:.0f} MiB: {took:.1f} s, {lines / took:,.0f} lines/s, "
        f"{size / took / 2**20:.0f} MiB/s; most memory {used.ru_maxrss / 1024:.0f} MiB"
    )


def _write(path: Path, repeat: int) -> None:
    draw = random.Random(0)
    lines = []
    for _ in range(LINES):
        fields = [str(draw.randrange(10 ** draw.randrange(1, 6))) for _ in range(13)]
        fields += [f"{draw.randrange(2**32):08x}" for _ in range(26)]
        shown = ["" if draw.random() < 0.12 else field for field in fields]
        lines.append("\t".join([str(draw.randrange(2)), *shown]) + "\n")
    text = "".join(lines)
    with path.open("w") as file:
        for _ in range(repeat):
            file.write(text)


def _read(folder: Path, threshold: int) -> None:
    from suite.catalog import load_workload
    from suite.data import open_source

    name = f"dlrm_criteo_kaggle,data=criteo_kaggle,lines=any,frequency_threshold={threshold}"
    workload = load_workload(name, str(folder))
    began = time.perf_counter()
    open_source(workload, 0)
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main()
