"""How fast second moments grow in 2D, by the samples of a group's batch: M groups against 1D, row-wise
AdaGrad.

    python -m benchmarks.moments planted_clicks --global-batches 256,1024,4096,16384,65536

For each global batch, v under M groups over v under 1D, by how often 1D touches a row, and of the three rows
with the most ids: once as the workload trains (where both end up differs), and once with learning rates of
1e-9, so that both see the same gradients. Emulated; one seed. Prints the rows of a table.
"""

from __future__ import annotations

import argparse
import heapq

import numpy as np
import torch

from suite.catalog import load_workload
from suite.data import open_source
from suite.quality.moments import grow, ratios_of
from suite.quality.spec import Training, VirtualOptimizer
from suite.spec import WorkloadSpec

STILL = 1e-9
HOTTEST = 3


def main() -> None:
    """Trains and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload")
    parser.add_argument("--replica-groups", type=int, default=16)
    parser.add_argument("--global-batches", default="256,1024,4096,16384,65536")
    parser.add_argument("--steps", type=int, default=24)
    options = parser.parse_args()
    torch.set_num_threads(1)
    workload = load_workload(options.workload)
    print("| samples a group | learning rates | touched in steps from | rows | median ratio | 80 % of rows |")
    print("| --- | --- | --- | --- | --- | --- |")
    for batch in (int(part) for part in options.global_batches.split(",")):
        for still in (True, False):
            one, many = (
                _training(workload, groups, batch, options.steps, still)
                for groups in (1, options.replica_groups)
            )
            grown = [grow(training) for training in (one, many)]
            group_batch = f"{batch / options.replica_groups:,.0f}"
            setting = (group_batch, "1e-9" if still else "own")
            ratios = sorted(
                grown[1].moments[table][row] / grown[0].moments[table][row]
                for table, row in hottest(workload, batch)
            )
            _print(
                *setting, "most ids", f"{HOTTEST}", f"{ratios[1]:.1f}", f"{ratios[0]:.1f} to {ratios[2]:.1f}"
            )
            for ratio in ratios_of(grown[0], [(many, grown[1])]):
                if ratio.median is not None:
                    spread = f"{ratio.low:.1f} to {ratio.high:.1f}"
                    share = f"{ratio.touched_from:.0%}"
                    _print(*setting, share, f"{ratio.rows:,}", f"{ratio.median:.1f}", spread)


def hottest(workload: WorkloadSpec, samples: int) -> list[tuple[str, int]]:
    """The rows with the most ids among so many training samples, each with its table's name."""
    found = open_source(workload, 0).train(0, samples)
    counts = [
        (int(count), table.name, row)
        for table in workload.tables
        for row, count in enumerate(
            np.bincount(np.concatenate([found.sparse[f][0] for f in table.features]), minlength=table.rows)
        )
    ]
    return [(name, row) for _, name, row in heapq.nlargest(HOTTEST, counts)]


def _print(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def _training(workload: WorkloadSpec, groups: int, batch: int, steps: int, still: bool) -> Training:
    default = workload.defaults.optimizer
    rate = STILL if still else default.learning_rate
    dense = default.dense.model_copy(update={"learning_rate": STILL}) if still else default.dense
    return Training(
        workload=workload,
        replica_groups=groups,
        optimizer=VirtualOptimizer(learning_rate=rate, eps=default.eps, dense=dense),
        global_batch=batch,
        steps=steps,
    )


if __name__ == "__main__":
    main()
