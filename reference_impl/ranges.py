"""Profiler ranges of a step that TorchRec, FBGEMM and PyTorch do not emit themselves.

They cost a few microseconds a step, and show in a trace who used the time in between: the dense layers,
the dense optimizer, the replica sync, and DDP's last wait for its all-reduce.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch.autograd import Variable
from torch.profiler import record_function


def component(name: str) -> AbstractContextManager[object]:
    """A range around a component of the step, in TorchRec's style: ``## dense_forward ##``."""
    return record_function(f"## {name} ##")


def backward(loss: torch.Tensor) -> None:
    """``loss.backward()`` in a range, and inside it one around DDP's last wait.

    When the last gradient is ready DDP waits for its all-reduces, in a callback at the end of the backward
    pass and without a range. Callbacks run in the order in which they were queued: one of ours is queued
    before DDP's, opens the range, and queues another, which comes after DDP's and closes it.
    """
    if not torch.autograd._profiler_enabled():
        loss.backward()
        return
    wait = component("dense_all_reduce wait")

    def close() -> None:
        wait.__exit__(None, None, None)

    def open_and_queue() -> None:
        wait.__enter__()
        Variable._execution_engine.queue_callback(close)

    loss.register_hook(lambda _: Variable._execution_engine.queue_callback(open_and_queue))
    with component("dense_backward"):
        loss.backward()
