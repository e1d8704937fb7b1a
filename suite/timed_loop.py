"""The timed loop, sole owner of the clock: nothing else in the suite measures training.

What a sample is. One step of one rank: from the moment all ranks are ready to the moment this rank has
finished ``train_step``. In it: input distribution, lookup, forward, backward, both optimizers, the replica
sync, and waiting inside collectives for slower ranks. Not in it: making the batch and moving it to the
device, reading the loss back, telling progress, and waiting for the others before the step.

Why a barrier before each step. Ranks make their batches in unlike times. Without a barrier a rank that is
ready early waits for the others inside the first collective of the step, and the time others spent on
their data would be booked as the step's communication. The price is that ranks cannot run ahead: what one
rank lost in a step is not made up in the next, so a sample is the step's time alone.

On CUDA kernels run behind Python's back: the device is synchronised before the clock starts and before
it is read again, so a sample holds the whole step and nothing of its neighbours. Overlap of one step with
the next is therefore not seen.

The first ``warmup_steps`` steps are recorded apart. They run under the collective counter, which costs
time; the others do not. Every step is recorded, the slow ones too.

Regime: at 1 ms a step or more. A sample holds two readings of the clock and one call (on CUDA one
synchronisation more): ``own_cost_ms`` measures that, 0.004 to 0.01 ms on a CPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist

from reference_impl.batch import Batch
from suite.collectives import CollectiveCounter, GroupNames
from suite.errors import non_finite_loss
from suite.record import StepCollectives

B = TypeVar("B")


@dataclass(frozen=True)
class TimedSteps:
    """Raw samples of one rank, in the order of the steps; see ``RankRecord`` for each."""

    loss: tuple[float, ...]
    warmup_step_ms: tuple[float, ...]
    step_ms: tuple[float, ...]
    collectives: tuple[StepCollectives, ...]


def run_steps(
    train_step: Callable[[Batch], torch.Tensor],
    batch_of: Callable[[int], Batch],
    *,
    steps: int,
    warmup_steps: int,
    rank: int,
    device: torch.device,
    groups: GroupNames,
    before_timed: Callable[[], None],
    done: Callable[[int], None],
) -> TimedSteps:
    """Trains ``steps`` steps, counted from 0, and times each. Collective: every rank calls it.

    Args:
        train_step: one whole step; returns the local loss, shape [].
        batch_of: makes the batch of a step, outside the clock.
        steps: steps in all.
        warmup_steps: the first of them, recorded apart and run under the collective counter.
        rank: this rank, for the error.
        device: where the batches are.
        groups: names the process groups for the counter.
        before_timed: called once, between the warm-up steps and the others.
        done: told how many steps are done, after each.

    Raises:
        RunFailed: the loss of a step is not finite (kind ``non_finite_loss``).
    """
    losses: list[float] = []
    samples: list[float] = []
    collectives: list[StepCollectives] = []
    for step in range(steps):
        if step == warmup_steps:
            before_timed()
        batch = batch_of(step)
        align(device)
        if step < warmup_steps:
            with CollectiveCounter(groups) as counter:
                loss, elapsed_ms = _timed(train_step, batch, device)
            collectives.append(StepCollectives(step=step, collectives=counter.counts()))
        else:
            loss, elapsed_ms = _timed(train_step, batch, device)
        samples.append(elapsed_ms)
        losses.append(_finite(float(loss), step, rank))
        done(step + 1)
    return TimedSteps(
        tuple(losses), tuple(samples[:warmup_steps]), tuple(samples[warmup_steps:]), tuple(collectives)
    )


def run_profiled(
    train_step: Callable[[B], object],
    batch_of: Callable[[int], B],
    *,
    steps: int,
    device: torch.device,
    around: Callable[[int], AbstractContextManager[object]],
    done: Callable[[int], None],
) -> tuple[float, ...]:
    """Takes further steps, counted from 0, each inside ``around(step)``. Collective.

    Ranks are aligned and the clock is read as for every sample, so that these samples and plain ones differ
    by what ``around`` does to a step. They are returned apart, and enter no statistics of the plain ones.

    Returns:
        Milliseconds of each step.
    """
    samples = []
    for step in range(steps):
        batch = batch_of(step)
        align(device)
        with around(step):
            samples.append(_timed(train_step, batch, device)[1])
        done(step + 1)
    return tuple(samples)


def sample_ms(step: Callable[[B], object], batch: B, device: torch.device) -> float:
    """Aligns the ranks and times one step, exactly as the loop does. Collective: every rank calls it."""
    align(device)
    return _timed(step, batch, device)[1]


def own_cost_ms(device: torch.device, repeats: int) -> list[float]:
    """What a sample holds beyond the step: samples of a step that does nothing. Collective."""
    return [sample_ms(lambda _: None, None, device) for _ in range(repeats)]


def back_to_back_ms(step: Callable[[B], object], batches: Iterable[B], device: torch.device) -> float:
    """The time of the steps in a bare loop: no barrier, no clock between them. Collective.

    Beside the sum of the same steps' samples it shows what sampling does to the steps themselves.
    """
    prepared = list(batches)

    def all_steps(prepared: list[B]) -> None:
        for batch in prepared:
            step(batch)

    return sample_ms(all_steps, prepared, device)


def align(device: torch.device) -> None:
    """Returns when every rank is here and this rank's device is idle."""
    if device.type == "cuda":
        dist.barrier(device_ids=[device.index])
        torch.cuda.synchronize(device)
    else:
        dist.barrier()


R = TypeVar("R")


def _timed(step: Callable[[B], R], batch: B, device: torch.device) -> tuple[R, float]:
    start = time.perf_counter()
    result = step(batch)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return result, (time.perf_counter() - start) * 1e3


def _finite(loss: float, step: int, rank: int) -> float:
    if not math.isfinite(loss):
        raise non_finite_loss(loss, f"The loss of rank {rank} is {loss} in step {step}.", rank)
    return loss
