"""Traces written by hand, and what each component's times must come out as.

Microseconds are exact: the traces hold whole ones, and nothing in a breakdown rounds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from profiles.breakdown import StepTimes, break_down
from profiles.intervals import length
from profiles.trace import read
from suite.implementations.ranges import TORCHREC_RANGES
from tests.helpers.kineto import AUTOGRAD, NCCL_STREAM, Kineto


def steps(trace: Kineto, folder: Path) -> list[StepTimes]:
    return break_down(read(trace.write(folder / "rank0.1.pt.trace.json"), TORCHREC_RANGES))


def exposed(step: StepTimes) -> dict[str, float]:
    found = {name: length(times) / 1000 for name, times in step.exposed.items()}
    return {name: us for name, us in found.items() if us} | {"other": step.other / 1000}


def busy(step: StepTimes) -> dict[str, float]:
    return {name: length(times) / 1000 for name, times in step.busy.items()}


def cpu_trace() -> Kineto:
    trace = Kineto()
    trace.step(3, 0, 1000)
    trace.range("## dense_optimizer ##", 10, 20)
    trace.range("## dense_forward ##", 20, 420)
    trace.range("[splits_dist]_[ebc]_[table_wise]", 30, 60)
    trace.all_to_all(40, 45, [2, 2], element="long int")
    trace.work("all_to_all", 42, 70, 4, "long int")
    # TorchRec's wait for the ids lies in a range named after the output: the outermost decides.
    trace.range("## KJTListSplitsAwaitable wait() ##", 60, 100)
    trace.range("[output_dist_wait]_[ebc]_[table_wise]", 62, 98)
    trace.range("[lookup]_[ebc]_[table_wise]", 100, 150)
    trace.range("[output_dist]_[ebc]_[table_wise]", 150, 160)
    trace.range("## EmbeddingBagCollectionAwaitable wait() ##", 300, 330)
    trace.range("## dense_backward ##", 420, 800)
    trace.operator("All2All_Pooled_WaitBackward", 500, 550)
    trace.range("## All2All_Pooled_bwd ##", 510, 540)
    trace.operator("torch::autograd::CppNode<SplitLookupFunction_x>", 560, 600)
    trace.operator("fbgemm::split_embedding_backward_codegen_x", 570, 590)
    trace.all_reduce(610, 620, 100)
    trace.work("all_reduce", 630, 760, 100)
    trace.range("## dense_all_reduce wait ##", 700, 790)
    trace.range("## dense_optimizer ##", 800, 850)
    trace.range("## replica_sync ##", 850, 950)
    return trace


def test_a_step_on_a_cpu(tmp_path: Path) -> None:
    (step,) = steps(cpu_trace(), tmp_path)
    assert step.number == 3
    assert exposed(step) == {
        "input_dist": 70,
        "lookup": 50,
        "output_dist": 40,
        "dense_forward": 400 - 70 - 50 - 40,
        "output_dist_backward": 50,
        "lookup_backward_optimizer": 40,
        "dense_all_reduce": 10 + 90,
        "dense_backward": 380 - 50 - 40 - 100,
        "dense_optimizer": 60,
        "replica_sync": 100,
        "other": 60,
    }
    assert sum(exposed(step).values()) == 1000
    # In flight from the call to the end of gloo's work, beside the backward pass.
    assert busy(step)["dense_all_reduce"] == 790 - 610
    assert busy(step)["dense_backward"] == exposed(step)["dense_backward"]


def test_collectives_of_a_cpu(tmp_path: Path) -> None:
    (step,) = steps(cpu_trace(), tmp_path)
    found = [
        (c.component, c.operator, c.end - c.start, c.bytes, c.wire_bytes, c.ranks) for c in step.collectives
    ]
    assert found == [
        ("input_dist", "alltoall_base_", 30_000, 32, 16, (0, 1)),
        ("dense_all_reduce", "allreduce_", 150_000, 400, 400, (0, 1)),
    ]


def gpu_trace() -> Kineto:
    """The host launches and runs ahead; the backward pass has a thread of its own."""
    trace = Kineto()
    trace.step(0, 0, 1000)
    trace.range("## dense_forward ##", 10, 210)
    trace.range("[splits_dist]_[ebc]_[table_wise]", 20, 60)
    trace.all_to_all(30, 40, [3, 5])
    trace.kernel("ncclDevKernel_SendRecv", 50, 150, 1, 35, stream=NCCL_STREAM)
    trace.range("[lookup]_[ebc]_[table_wise]", 60, 80)
    trace.kernel("split_embedding_forward", 150, 250, 2, 70)
    trace.kernel("gemm_forward", 250, 300, 3, 100)
    trace.range("## dense_backward ##", 210, 500)
    trace.kernel("gemm_backward", 300, 500, 4, 220, AUTOGRAD)
    trace.operator("c10d::allreduce_", 240, 250, AUTOGRAD)
    trace.kernel("ncclDevKernel_AllReduce", 400, 600, 5, 245, AUTOGRAD, NCCL_STREAM)
    trace.operator("torch::autograd::CppNode<SplitLookupFunction_x>", 260, 290, AUTOGRAD)
    trace.kernel("split_embedding_backward", 620, 700, 6, 270, AUTOGRAD)
    trace.range("## dense_optimizer ##", 500, 520)
    trace.kernel("adagrad", 700, 720, 7, 510)
    return trace


def test_a_step_on_a_gpu(tmp_path: Path) -> None:
    (step,) = steps(gpu_trace(), tmp_path)
    assert exposed(step) == {
        # 10 on the host before the first kernel, 50 to 150 as NCCL's kernel, alone on the device.
        "dense_forward": 10 + 50,  # 10-20 launching, 250-300 the kernel
        "input_dist": 30 + 100,  # 20-50 launching, then the kernel
        "lookup": 100,
        "dense_backward": 200,  # its kernel, although the all-reduce runs beside its second half
        "dense_all_reduce": 100,  # 500-600: nothing else runs
        "lookup_backward_optimizer": 80,
        "dense_optimizer": 20,
        "other": 10 + 20 + 280,  # before the forward; 600-620; the host after the last kernel
    }
    assert sum(exposed(step).values()) == 1000
    assert busy(step)["dense_all_reduce"] == 200 + 10  # and the call on the host
    arrived = {c.component: (c.start, c.end) for c in step.collectives}
    assert {name: (end - start) / 1000 for name, (start, end) in arrived.items()} == {
        "input_dist": 100,
        "dense_all_reduce": 200,
    }


def test_kernels_before_their_launch_of_no_length_and_of_nobody(tmp_path: Path) -> None:
    trace = Kineto()
    trace.step(0, 0, 100)
    trace.range("[lookup]_[ebc]_[table_wise]", 40, 60)
    trace.kernel("early", 20, 30, 1, 50)  # its clock is behind: it still belongs to its launch
    trace.kernel("of_no_length", 70, 70, 2, 50)
    trace.kernel("backwards", 75, 72, 3, 50)
    trace.kernel("of_nobody", 80, 90, 4, None)
    (step,) = steps(trace, tmp_path)
    assert exposed(step) == {"lookup": 30, "other": 70}


def test_a_kernel_across_the_end_of_a_step_counts_in_both(tmp_path: Path) -> None:
    trace = Kineto()
    trace.step(0, 0, 100)
    trace.step(1, 100, 200)
    trace.range("[lookup]_[ebc]_[table_wise]", 90, 95)
    trace.kernel("long", 92, 130, 1, 91)
    first, second = steps(trace, tmp_path)
    assert exposed(first) == {"lookup": 10, "other": 90}
    assert exposed(second) == {"lookup": 30, "other": 70}


def test_without_marked_steps_the_trace_is_one(tmp_path: Path) -> None:
    trace = Kineto()
    trace.range("[lookup]_[ebc]_[table_wise]", 10, 30)
    trace.range("Optimizer.step#SGD.step", 40, 60)
    (step,) = steps(trace, tmp_path)
    assert exposed(step) == {"lookup": 20, "dense_optimizer": 20, "other": 10}


@pytest.mark.parametrize("described", [True, False])
def test_bytes_without_recorded_shapes(described: bool, tmp_path: Path) -> None:
    """NCCL's process group tells them; without it they are unknown, not nothing."""
    trace = Kineto(rank=1)
    trace.step(0, 0, 100)
    trace.range("[output_dist]_[ebc]_[table_wise]", 10, 50)
    trace.operator("c10d::alltoall_base_", 20, 30)
    if described:
        trace.operator(
            "record_param_comms", 21, 29,
            **{"In msg nelems": 12, "Out msg nelems": 12, "dtype": "Float", "In split size": "[4, 8]",
               "Process Group Ranks": "[0, 1]"},
        )  # fmt: skip
    (step,) = steps(trace, tmp_path)
    (found,) = step.collectives
    assert (found.bytes, found.wire_bytes) == ((48, 16) if described else (None, None))
