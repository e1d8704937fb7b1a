"""An implementation without TorchRec, and the faults that it commits on demand.

``TOY_FAULT=kind:rank:step`` (or ``kind:rank:step:launch``) makes one rank commit a fault in a training step,
step -1 being the build. It writes when it did, as ``time.monotonic`` has it, into the file ``TOY_FAULT_TIME``
where that is set.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.distributed as dist

from reference_impl.batch import Batch
from suite.errors import ConfigError
from suite.implementation import Implementation
from suite.spec import RunSpec

FAULT = "TOY_FAULT"
FAULT_TIME = "TOY_FAULT_TIME"


class Toy(Implementation):
    """Logistic regression on the dense features, and a pointless all-to-all a step."""

    def __init__(self, run: RunSpec, device: torch.device) -> None:
        self.weight = torch.zeros(run.workload.model.dense_features, requires_grad=True)
        self._step = 0
        commit_fault(-1)

    def train_step(self, batch: Batch) -> torch.Tensor:
        commit_fault(self._step)
        self._step += 1
        n = dist.get_world_size()
        dist.all_to_all_single(torch.empty(n), torch.ones(n))
        loss = batch.loss_scale * torch.nn.functional.binary_cross_entropy_with_logits(
            self._logits(batch, self.weight), batch.labels, reduction="sum"
        )
        (gradient,) = torch.autograd.grad(loss, self.weight)
        dist.all_reduce(gradient)
        with torch.no_grad():
            self.weight -= gradient / n
        return loss.detach()

    def sync_replicas(self) -> None:
        pass

    def predict(self, batch: Batch) -> torch.Tensor:
        return torch.sigmoid(self._logits(batch, self.weight.detach()))

    def _logits(self, batch: Batch, weight: torch.Tensor) -> torch.Tensor:
        return batch.dense[: len(batch.labels)] @ weight

    def component_ranges(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    def parameter_bytes(self) -> Mapping[str, int]:
        return {
            "embedding_weights": 0,
            "embedding_optimizer_state": 0,
            "dense_parameters": self.weight.nbytes,
            "dense_optimizer_state": 0,
        }

    def gather_weights(self) -> Mapping[str, torch.Tensor]:
        return {"dense.weight": self.weight.detach().clone()}


def fault_now(step: int) -> str | None:
    """The fault that this rank is to commit in this step of this launch."""
    if FAULT not in os.environ:
        return None
    kind, rank, at, *launch = os.environ[FAULT].split(":")
    this_launch = Path(sys.argv[1]).parent.name.removeprefix("launch")
    is_here = os.environ["RANK"] == rank and step == int(at) and (not launch or launch[0] == this_launch)
    return kind if is_here else None


def commit_fault(step: int) -> None:
    fault = fault_now(step)
    if fault and FAULT_TIME in os.environ:
        Path(os.environ[FAULT_TIME]).write_text(str(time.monotonic()))
    match fault:
        case "raise":
            raise ValueError("this rank was told to raise")
        case "config":
            raise ConfigError("model.factory", "mine:build", "its tables are not right.", "Repair them.")
        case "sys_exit":
            sys.exit(0)
        case "barrier_alone":
            dist.barrier()
        case "exit":
            os._exit(7)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "sleep":
            while True:
                time.sleep(1)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory_limit":
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + (256 << 20), resource.RLIM_INFINITY))
            torch.ones(1 << 28)
        case "leave_a_session":
            subprocess.Popen(["setsid", "sleep", "600"])
            time.sleep(1)
            raise ValueError("this rank was told to raise")
    if os.environ.get(FAULT, "").startswith("kill_in_all_to_all"):
        if fault_now(step):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
        if str(step) == os.environ[FAULT].split(":")[2]:
            exchange_for_ever()


def exchange_for_ever() -> None:
    """All-to-alls of 64 MB a rank, one after the other, so that whoever dies now dies inside one."""
    sent = torch.ones(16 << 20)
    while True:
        dist.all_to_all_single(torch.empty_like(sent), sent)
