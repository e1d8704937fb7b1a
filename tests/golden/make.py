"""``python -m tests.golden.make``: runs ``smoke`` and keeps its record, without names of this machine."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from suite.catalog import load_workload
from suite.cli.options import RunOptions
from suite.record import RunRecord
from suite.session import open_launcher, run_one
from suite.store import RECORD

PATH = Path(__file__).with_name("record_v1.json")


def main() -> None:
    options = RunOptions(steps=7, warmup_steps=2, launches=2)
    run = options.build(load_workload("smoke"), world_size=4, replica_groups=2)
    with tempfile.TemporaryDirectory() as runs:
        _, path = run_one(run, Path(runs), open_launcher("local"), print)
        content = json.loads((path / RECORD).read_text())
    content["environment"] |= {
        "host": "node0",
        "platform": "Linux",
        "network": {"interfaces": ["lo"]},
        "git_commit": None,
        "git_dirty": None,
        "variables": {},
        "flags": [],
    }
    for launch in content["launches"]:
        for rank in launch["ranks"]:
            rank |= {"host": "node0", "pid": 1000 + rank["rank"]}
    RunRecord.model_validate(content)
    PATH.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
