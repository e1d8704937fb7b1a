"""What virtual replica groups cost: a step of M groups against a step of one, both in this process.

Blocks of steps take turns (A B B A), and one pair of blocks gives one ratio. Target: at most 2 at M = 64.

    python -m benchmarks.virtual --replica-groups 64
"""

from __future__ import annotations

import argparse
import statistics
import tempfile

import torch
import torch.distributed as dist

from benchmarks.overhead import interval_text
from suite.catalog import load_workload
from suite.quality.spec import Training, VirtualOptimizer
from suite.quality.training import CPU, VirtualTraining
from suite.statistics import median_interval
from suite.timed_loop import sample_ms

WARMUP_STEPS = 5


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", default="movielens_100k")
    parser.add_argument("--replica-groups", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=20, help="pairs of blocks, one of each side")
    parser.add_argument("--block", type=int, default=10, help="steps a block")
    options = parser.parse_args()
    torch.set_num_threads(1)
    workload = load_workload(options.workload)
    default = workload.defaults.optimizer
    optimizer = VirtualOptimizer(learning_rate=default.learning_rate, eps=default.eps, dense=default.dense)
    sides = [
        VirtualTraining(
            Training(
                workload=workload,
                replica_groups=groups,
                optimizer=optimizer,
                global_batch=workload.batch.global_size,
                steps=1,
            )
        )
        for groups in (1, options.replica_groups)
    ]
    with tempfile.TemporaryDirectory() as folder:
        # The clock aligns the ranks of a process group; here there is one.
        dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 1), rank=0, world_size=1)
        for side in sides:
            for _ in range(WARMUP_STEPS):
                side.step()
        ratios = []
        for pair in range(options.pairs):
            order = sides if pair % 2 == 0 else sides[::-1]
            took = {side: _block_ms(side, options.block) for side in order}
            ratios.append(took[sides[1]] / took[sides[0]])
        dist.destroy_process_group()
    found = median_interval(ratios)
    assert found is not None
    print(
        f"virtual M = {options.replica_groups} / M = 1, {options.workload}: {interval_text(found)}, "
        f"{len(ratios)} pairs; target at most 2"
    )


def _block_ms(side: VirtualTraining, steps: int) -> float:
    return statistics.median(sample_ms(lambda _: side.step(), None, CPU) for _ in range(steps))


if __name__ == "__main__":
    main()
