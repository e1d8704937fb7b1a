"""The timed loop against a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import _get_current_dispatch_mode

from reference_impl.layout import RankLayout
from suite import timed_loop
from suite.collectives import CollectiveCounter, GroupNames
from suite.errors import RunFailed
from suite.timed_loop import TimedSteps, back_to_back_ms, own_cost_ms, run_profiled, run_steps, sample_ms

CPU = torch.device("cpu")


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Stage:
    """Everything the loop calls, each taking a while on the stage's own clock, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.events: list[str] = []
        self.losses: dict[int, float] = {}
        self.counted: list[bool] = []
        monkeypatch.setattr(timed_loop.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(timed_loop, "align", lambda _: self._take("align", 10.0))

    def batch(self, step: int) -> Any:
        self._take(f"batch {step}", 100.0)
        return step

    def step(self, batch: Any) -> torch.Tensor:
        self._take(f"step {batch}", 0.001 * (batch + 1))
        self.counted.append(isinstance(_get_current_dispatch_mode(), CollectiveCounter))
        return torch.tensor(self.losses.get(batch, 0.5))

    def run(self, steps: int, warmup_steps: int) -> TimedSteps:
        return run_steps(
            self.step,
            self.batch,
            steps=steps,
            warmup_steps=warmup_steps,
            rank=3,
            device=CPU,
            groups=GroupNames(RankLayout(1), 0),
            before_timed=lambda: self._take("before timed", 1000.0),
            done=lambda count: self._take(f"done {count}", 5.0),
        )

    def _take(self, event: str, seconds: float) -> None:
        self.events.append(event)
        self.now += seconds


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_sample_is_the_step_alone_and_none_is_dropped(stage: Stage) -> None:
    timed = stage.run(steps=5, warmup_steps=2)
    # The clock has 1e-13 s of rounding at 1,000 s; 1e-6 ms is far above it and far below any step.
    assert timed.warmup_step_ms == pytest.approx([1, 2], abs=1e-6)
    assert timed.step_ms == pytest.approx([3, 4, 5], abs=1e-6)
    assert timed.loss == (0.5,) * 5


def test_the_order_of_things(stage: Stage) -> None:
    stage.run(steps=2, warmup_steps=1)
    assert stage.events == [
        "batch 0", "align", "step 0", "done 1",
        "before timed",
        "batch 1", "align", "step 1", "done 2",
    ]  # fmt: skip


def test_warm_up_steps_are_counted_and_the_others_are_not(stage: Stage) -> None:
    timed = stage.run(steps=4, warmup_steps=2)
    assert stage.counted == [True, True, False, False]
    assert [c.step for c in timed.collectives] == [0, 1]


@pytest.mark.parametrize(("step", "loss"), [(0, float("nan")), (3, float("inf"))])
def test_a_loss_that_is_not_finite_ends_the_run(stage: Stage, step: int, loss: float) -> None:
    stage.losses[step] = loss
    with pytest.raises(RunFailed) as caught:
        stage.run(steps=5, warmup_steps=2)
    report = caught.value.report
    assert (report.kind, report.rank) == ("non_finite_loss", 3)
    assert f"step {step}" in report.message
    assert "rank 3" in report.message
    assert f"done {step + 1}" not in stage.events


def test_no_warm_up(stage: Stage) -> None:
    timed = stage.run(steps=1, warmup_steps=0)
    assert (timed.warmup_step_ms, timed.collectives) == ((), ())
    assert stage.events[0] == "before timed"


def test_sample_aligns_first(stage: Stage) -> None:
    assert sample_ms(stage.step, 6, CPU) == pytest.approx(7, abs=1e-6)
    assert stage.events == ["align", "step 6"]


def test_back_to_back_aligns_once_and_makes_batches_outside_the_clock(stage: Stage) -> None:
    total = back_to_back_ms(stage.step, map(stage.batch, range(3)), CPU)
    assert total == pytest.approx(1 + 2 + 3, abs=1e-6)
    assert stage.events[3:] == ["align", "step 0", "step 1", "step 2"]


def test_own_cost_is_of_samples_of_nothing(one_rank: None) -> None:
    costs = own_cost_ms(CPU, 7)
    assert len(costs) == 7
    assert min(costs) >= 0


def test_profiled_steps_are_aligned_and_timed_like_samples(stage: Stage) -> None:
    @contextmanager
    def around(step: int) -> Iterator[None]:
        stage._take(f"open {step}", 50.0)
        yield
        stage._take(f"close {step}", 50.0)

    taken = run_profiled(
        stage.step,
        stage.batch,
        steps=2,
        device=CPU,
        around=around,
        done=lambda count: stage._take(f"done {count}", 5.0),
    )
    assert taken == pytest.approx([1, 2], abs=1e-6)
    assert stage.events == [
        "batch 0", "align", "open 0", "step 0", "close 0", "done 1",
        "batch 1", "align", "open 1", "step 1", "close 1", "done 2",
    ]  # fmt: skip
    assert stage.counted == [False, False]
