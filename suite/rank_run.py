"""What one rank does from meeting the others to its output. The same on CPU with gloo, on CUDA with NCCL."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from reference_impl.batch import Batch
from suite.batches import RankBatches
from suite.checkpoints.tensors import load, save
from suite.collectives import GroupNames
from suite.data import described, open_source
from suite.errors import ConfigError
from suite.evaluation import predict
from suite.implementation import Implementation, implementation_class
from suite.job import Job, RankOutput
from suite.launchers.deadlines import START_S
from suite.launchers.reporter import Reporter
from suite.launchers.variables import STORE_FD
from suite.memory import PeakMemory
from suite.metrics.quality import quality
from suite.rank_profile import RankProfile
from suite.record import RankRecord
from suite.spec import RunSpec
from suite.timed_loop import align, run_steps


def run_rank(job: Job, rank: int, reporter: Reporter) -> RankOutput:
    """Builds, trains, measures, evaluates. Collective: every rank of the launch calls it once.

    Raises:
        ConfigError: something that can be found only here, for example a user's model whose tables are
            not the workload's.
        RunFailed: the loss is not finite.
    """
    run = job.run
    torch.manual_seed(run.seed)
    device = _device(run)
    _join(run, rank)

    reporter.at("build")
    source = open_source(run.workload, run.seed)
    data = described(source, run.workload.data.source) if rank == 0 else {}
    memory = PeakMemory(device)
    implementation = implementation_class(run.implementation)(run, device)
    batches = RankBatches(run, source, rank, device)
    groups = GroupNames(run.layout.ranks(), rank)
    if run.start is not None:
        load(implementation.checkpoint_state(), Path(run.start.checkpoint))

    def done(step: int) -> None:
        reporter.at("train", step, run.steps)
        if run.checkpoint is not None and step % run.checkpoint.every == 0:
            start, samples = run.start.step if run.start else 0, batches.samples_before(step)
            save(implementation.checkpoint_state(), run, start + step, samples)

    reporter.at("train", 0, run.steps)
    timed = run_steps(
        implementation.train_step,
        announced(implementation, batches.train, run.steps),
        steps=run.steps,
        warmup_steps=run.warmup_steps,
        rank=rank,
        device=device,
        groups=groups,
        before_timed=memory.reset,
        done=done,
    )
    record = RankRecord(
        rank=rank,
        host=socket.gethostname(),
        pid=os.getpid(),
        device="cpu" if device.type == "cpu" else torch.cuda.get_device_name(device),
        threads=torch.get_num_threads(),
        loss=timed.loss,
        warmup_step_ms=timed.warmup_step_ms,
        step_ms=timed.step_ms,
        collectives=timed.collectives,
        memory=memory.record(implementation.parameter_bytes()),
    )

    count = batches.evaluation_batches
    reporter.at("evaluate", 0, count)
    predictions = predict(implementation, batches, lambda index: reporter.at("evaluate", index, count))
    if run.profile_steps:
        looked = RankProfile(job, rank, device, implementation, batches, groups, reporter)
        profile = looked.components(float(np.median(timed.step_ms)))
        held = record.memory.model_copy(update={"profile": looked.memory()})
        record = record.model_copy(update={"profile": profile, "memory": held})
    align(device)  # nobody leaves while another still needs it
    dist.destroy_process_group()
    if rank > 0:
        return RankOutput(record=record)
    # Scoring is rank 0's alone and may take long: the others have been let go.
    score = None if predictions is None else quality(*predictions, data.get("split", "evaluation"))
    return RankOutput(record=record, quality=score, sharding=implementation.sharding(), data=data)


def announced(
    implementation: Implementation, batch_of: Callable[[int], Batch], steps: int
) -> Callable[[int], Batch]:
    """``batch_of`` for steps in order, told to the implementation as far ahead as it wants.

    No further than the training goes: the last steps are told of fewer.
    """
    if implementation.look_ahead == 0:
        return batch_of
    waiting: deque[Batch] = deque()
    made = 0

    def next_of(step: int) -> Batch:
        nonlocal made
        while made < min(step + implementation.look_ahead + 1, steps):
            waiting.append(batch_of(made))
            implementation.announce(waiting[-1])
            made += 1
        return waiting.popleft()

    return next_of


def _device(run: RunSpec) -> torch.device:
    if run.device == "cpu":
        return torch.device("cpu")
    local_rank = int(os.environ["LOCAL_RANK"])
    if local_rank >= torch.cuda.device_count():
        raise ConfigError(
            "layout.world_size",
            run.layout.world_size,
            f"this host has {torch.cuda.device_count()} GPUs for {os.environ['LOCAL_WORLD_SIZE']} ranks.",
            "Use one rank a GPU.",
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


def _join(run: RunSpec, rank: int) -> None:
    """Meets the other ranks at MASTER_ADDR:MASTER_PORT and makes the default process group."""
    world_size = run.layout.world_size
    listening = os.environ.get(STORE_FD)
    patience = timedelta(seconds=run.stall_timeout_s)
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world_size,
        is_master=rank == 0,
        timeout=patience + timedelta(seconds=START_S),
        wait_for_workers=False,
        master_listen_fd=None if listening is None else int(listening),
    )
    # Ranks import their libraries in unlike times, so they wait here, longer than a collective may take.
    store.set(f"started/{rank}", "")
    store.wait([f"started/{other}" for other in range(world_size)])
    dist.init_process_group(
        "gloo" if run.device == "cpu" else "nccl",
        store=store,
        rank=rank,
        world_size=world_size,
        timeout=patience,
    )
