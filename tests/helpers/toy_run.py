"""Runs of the toy, and a parent process that is there to be killed: ``python -m tests.helpers.toy_run``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from suite.launchers.base import Progress
from suite.launchers.local import LocalLauncher
from suite.spec import RunSpec


def toy_run(**changes: Any) -> RunSpec:
    """A run of the toy implementation on the toy data."""
    return RunSpec.model_validate(
        {
            "workload": {
                "name": "toy",
                "model": {"dense_features": 1, "factory": "unused:unused"},
                "tables": [{"name": "products", "rows": 10, "dim": 4, "features": ["item"]}],
                "data": {"source": "tests.helpers.toy_data:ToySource"},
                "batch": {"global_size": 9, "per_rank": 3},
            },
            "implementation": "tests.helpers.toy_implementation:Toy",
            "layout": {"world_size": 2},
            "steps": 6,
            "warmup_steps": 2,
            "stall_timeout_s": 60,
        }
        | changes
    )


def main() -> None:
    """Launches the toy and tells, a line each, how far it is."""

    def tell(progress: Progress) -> None:
        print(progress.phase, progress.step, flush=True)

    LocalLauncher().launch(toy_run(), 0, Path(sys.argv[1]), tell)


if __name__ == "__main__":
    main()
