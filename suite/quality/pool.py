"""Trainings side by side, one a core, each in a process of its own with one thread."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from suite.errors import NON_FINITE_LOSS, ErrorReport, RunFailed, SuiteError
from suite.launchers.linux import die_with_parent
from suite.quality.library import Experiment, TrainingResult
from suite.quality.spec import Training

Outcome = TypeVar("Outcome")


def run_all(
    trainings: Sequence[Training],
    experiment: Experiment,
    jobs: int,
    done: Callable[[int, int], None],
    may_diverge: bool = False,
) -> list[TrainingResult]:
    """Trains what the experiment has not yet, and returns all results in the given order.

    Args:
        trainings: to be had.
        experiment: keeps each result as it comes.
        jobs: processes at once.
        done: told how many of how many are there, at the start and after each.
        may_diverge: a loss that is not finite is a result, not an error.

    Raises:
        SuiteError: of the first training that failed; no process is left, and finished results are kept.
    """
    missing = {t.training_hash: t for t in trainings if t.training_hash not in experiment.finished}
    wanted = {t.training_hash for t in trainings}
    done(len(wanted) - len(missing), len(wanted))
    work = _train_or_diverge if may_diverge else _train
    for _, result in side_by_side(work, list(missing.values()), experiment, jobs):
        experiment.save(result)
        done(len(experiment.finished.keys() & wanted), len(wanted))
    return [experiment.finished[t.training_hash] for t in trainings]


def side_by_side(
    work: Callable[[Training], Outcome], trainings: Sequence[Training], experiment: Experiment, jobs: int
) -> Iterator[tuple[Training, Outcome]]:
    """What comes of each training, as it comes, in processes that end with this call.

    Args:
        work: a function of a module, called in another process.
        trainings: that it is called with.
        experiment: that a remedy says how to go on with.
        jobs: processes at once.

    Raises:
        SuiteError: of the first that failed; no process is left.
    """
    if not trainings:
        return
    context = multiprocessing.get_context("spawn")
    workers = ProcessPoolExecutor(
        min(jobs, len(trainings)), context, initializer=_begin, initargs=(os.getpid(),)
    )
    try:
        with _uninterrupted():
            futures = {workers.submit(_told, work, training): training for training in trainings}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise RunFailed(
            ErrorReport(
                kind="worker_died",
                message="A training's process was killed, possibly for want of memory.",
                remedy=f"Use fewer --jobs, and go on with --resume {experiment.path}.",
            )
        ) from error
    finally:
        # Not the executor's own shutdown: it waits for trainings that go on, minutes after a Ctrl-C.
        for process in list((workers._processes or {}).values()):
            process.kill()
        workers.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits, and processes that are started meanwhile never get it: their parent ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(parent: int) -> None:
    die_with_parent(parent)
    with suppress(OSError):
        os.dup2(2, 1)  # a user's model or data may print; the parent's stdout is for its result
    import torch

    torch.set_num_threads(1)
    logging.getLogger("torch.fx._symbolic_trace").setLevel(logging.ERROR)  # warns of what TorchRec asks it


def _told(work: Callable[[Training], Outcome], training: Training) -> Outcome:
    """Any error as one that gets whole to the parent, and says where it comes from."""
    try:
        return work(training)
    except SuiteError:
        raise
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = "".join(traceback.format_exception_only(error)).strip()
        raise RunFailed(
            ErrorReport(
                kind="training_raised",
                message=f"The training of M = {training.replica_groups}, seed {training.seed} raised "
                f"{text} ({Path(last.filename).name}, line {last.lineno}).",
                remedy="It comes from the workload's model or data, or is a defect of the suite; --debug "
                "shows where. Finished trainings are kept.",
            )
        ) from error


def _train(training: Training) -> TrainingResult:
    from suite.quality.training import train  # imports torch, which the parent need not

    return train(training)


def _train_or_diverge(training: Training) -> TrainingResult:
    try:
        return _train(training)
    except RunFailed as error:
        if error.report.kind != NON_FINITE_LOSS:
            raise
        return TrainingResult(training=training, curve=(), last_loss=None, diverged=error.report.message)
