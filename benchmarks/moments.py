"""How fast second moments grow in 2D, by the samples of a group's batch: M groups against 1D, row-wise
AdaGrad.

    python -m benchmarks.moments planted_clicks --global-batches 256,1024,4096,16384,65536

For each global batch, v under M groups over v under 1D, by how often 1D touches a row: once as the workload
trains (where both end up differs), and once with learning rates of 1e-9, so that both see the same
gradients. Emulated; one seed. Prints the rows of a table.
"""

from __future__ import annotations

import argparse

import torch

from suite.catalog import load_workload
from suite.quality.moments import moment_ratios
from suite.quality.spec import Training, VirtualOptimizer
from suite.spec import WorkloadSpec

STILL = 1e-9


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
            for ratio in moment_ratios(one, [many]):
                if ratio.median is not None:
                    cells = (
                        f"{ratio.group_batch:,.0f}",
                        "1e-9" if still else "own",
                        f"{ratio.touched_from:.0%}",
                        f"{ratio.rows:,}",
                        f"{ratio.median:.1f}",
                        f"{ratio.low:.1f} to {ratio.high:.1f}",
                    )
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
