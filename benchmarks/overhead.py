"""What the suite's own layers cost: three ratios, each measured inside one run.

1. ``reference_2d`` at M = 1 against ``baseline_1d``: both models live in the same processes on the same
   batches, and take turns in blocks of steps (A B B A, so that drift falls on both alike). One pair of
   blocks gives one ratio of step times, the step time of a block being the median over its steps of the
   slowest rank's. Reported: the median ratio over pairs with its interval. Target: within 2 %.
2. The timed loop's own cost: what a sample holds besides the step, against a step. Target: under 1 %. And
   beside it, what aligning the ranks does to the steps: samples against the same steps back to back.
3. The cost of looking: steps under the profiler (as every run takes them for its components) against the same
   steps without, in blocks that take turns. Target: within 15 % on ``dlrm_small``.

    python -m benchmarks.overhead --world-size 2 --pairs 120

On a machine with fewer cores than ranks the interval is wide; it says so by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from profiles.capture import Capture
from suite.batches import RankBatches
from suite.catalog import load_workload
from suite.collectives import GroupNames
from suite.data import open_source
from suite.implementation import Implementation, implementation_class
from suite.spec import LayoutSpec, RunSpec
from suite.statistics import Interval, median_interval
from suite.timed_loop import back_to_back_ms, own_cost_ms, run_profiled, sample_ms

CPU = torch.device("cpu")
WARMUP_STEPS = 10
#: Of this many pairs of blocks one has a block under the profiler, which takes a second to start and stop.
PROFILED_SHARE = 8
SIDES = ("baseline_1d", "reference_2d")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", default="dlrm_small")
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=120, help="pairs of blocks, one of each side")
    parser.add_argument("--block", type=int, default=15, help="steps a block")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_rank, args=(options, folder), nprocs=options.world_size)
        measured = json.loads((Path(folder) / "measured.json").read_text())
    if options.json:
        print(json.dumps(measured, indent=2))
        return
    for name, text in measured["summary"].items():
        print(f"{name}: {text}")


def _rank(rank: int, options: argparse.Namespace, folder: str) -> None:
    size = options.world_size
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // size))
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(f"{folder}/store", size),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=60),
    )
    workload = load_workload(options.workload)
    run = RunSpec(
        workload=workload, layout=LayoutSpec(world_size=size), optimizer=workload.defaults.optimizer
    )
    batches = RankBatches(run, open_source(workload, run.seed), rank, CPU)
    sides = {
        name: implementation_class(name)(run.model_copy(update={"implementation": name}), CPU)
        for name in SIDES
    }
    for step in range(WARMUP_STEPS):
        for implementation in sides.values():
            implementation.train_step(batches.train(step))

    ratios, step_ms = _compare(sides, batches, options)
    one = sides["reference_2d"]
    own = statistics.median(own_cost_ms(CPU, 1000)) / step_ms
    sampling = _sampling(one, batches, options)
    looking = _looking(one, run, batches, options)
    if rank == 0:
        ratio = median_interval(ratios)
        beside = median_interval(sampling)
        looked = median_interval(looking)
        assert ratio is not None
        assert beside is not None
        assert looked is not None
        summary = {
            "step": f"{step_ms:.2f} ms, {options.workload}, T = {size}, baseline_1d",
            "reference_2d at M = 1 / baseline_1d": (
                f"{interval_text(ratio)}, {len(ratios)} pairs; target 0.98-1.02"
            ),
            "own cost of a sample / step": f"{own:.5f}; target below 0.01",
            "sampled steps / back-to-back steps": f"{interval_text(beside)}, {len(sampling)} pairs",
            "profiled steps / plain steps": (
                f"{interval_text(looked)}, {len(looking)} pairs; target below 1.15"
            ),
        }
        measured = {
            "summary": summary,
            "step_ms": step_ms,
            "ratios": ratios,
            "own_cost_share": own,
            "sampled_over_back_to_back": sampling,
            "profiled_over_plain": looking,
        }
        (Path(folder) / "measured.json").write_text(json.dumps(measured))
    dist.barrier()
    dist.destroy_process_group()


def interval_text(interval: Interval) -> str:
    """Median, interval and confidence in one line."""
    if interval.confidence is None:
        return f"{interval.median:.4f} (one pair, no interval)"
    return f"{interval.median:.4f} [{interval.low:.4f}, {interval.high:.4f}] at {interval.confidence:.1%}"


def _compare(
    sides: dict[str, Implementation], batches: RankBatches, options: argparse.Namespace
) -> tuple[list[float], float]:
    """Ratios reference / baseline, one a pair of blocks, and the baseline's median step in ms."""
    ratios, baseline = [], []
    for pair in range(options.pairs):
        prepared = [batches.train(pair * options.block + i) for i in range(options.block)]
        order = SIDES if pair % 2 == 0 else SIDES[::-1]
        block = {
            name: statistics.median(
                _slowest([sample_ms(sides[name].train_step, batch, CPU) for batch in prepared])
            )
            for name in order
        }
        ratios.append(block["reference_2d"] / block["baseline_1d"])
        baseline.append(block["baseline_1d"])
    return ratios, statistics.median(baseline)


def _sampling(
    implementation: Implementation, batches: RankBatches, options: argparse.Namespace
) -> list[float]:
    """Ratios of a block's samples, summed, to the same steps back to back."""
    ratios = []
    for pair in range(options.pairs // 2):
        prepared = [batches.train(pair * options.block + i) for i in range(options.block)]
        sampled = _slowest([sample_ms(implementation.train_step, batch, CPU) for batch in prepared])
        whole = _slowest([back_to_back_ms(implementation.train_step, prepared, CPU)])
        ratios.append(sum(sampled) / whole[0])
    return ratios


def _looking(
    implementation: Implementation, run: RunSpec, batches: RankBatches, options: argparse.Namespace
) -> list[float]:
    """Ratios of profiled to plain step times, one a pair of blocks; starting the profiler is left out."""
    groups = GroupNames(run.layout.ranks(), dist.get_rank())
    ratios = []
    for pair in range(max(1, options.pairs // PROFILED_SHARE)):
        prepared = [batches.train(pair * options.block + i) for i in range(options.block)]
        block = {}
        for side in ("plain", "profiled") if pair % 2 == 0 else ("profiled", "plain"):
            if side == "plain":
                taken = [sample_ms(implementation.train_step, batch, CPU) for batch in prepared]
            else:
                capture = Capture(dist.get_rank(), CPU, implementation.component_ranges(), groups)
                with capture:
                    taken = list(
                        run_profiled(
                            implementation.train_step,
                            [prepared[-1], *prepared].__getitem__,
                            steps=capture.starting_steps + len(prepared),
                            device=CPU,
                            around=capture.step,
                            done=lambda _: None,
                        )
                    )[capture.starting_steps :]
            block[side] = statistics.median(_slowest(taken))
        ratios.append(block["profiled"] / block["plain"])
    return ratios


def _slowest(samples: list[float]) -> list[float]:
    """Element by element the largest over the ranks."""
    slowest = torch.tensor(samples, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.tolist()


if __name__ == "__main__":
    main()
