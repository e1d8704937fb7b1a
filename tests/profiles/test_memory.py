"""Real steps of real ranks: what their memory is for."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist

from suite.memory_categories import CATEGORIES, LASTING, PASSING, Category
from suite.record import MemoryProfile
from tests.helpers.distributed import World
from tests.helpers.memory_injection import INJECTED, Larger
from tests.profiles.test_capture import make

CPU = torch.device("cpu")
WARMUP = 4


@pytest.fixture(scope="module")
def world() -> Iterator[Callable[[int], World]]:
    """Ranks of this file's own: what other tests left reachable in theirs would be counted as ``other``."""
    worlds: dict[int, World] = {}
    yield lambda size: worlds.setdefault(size, World(size))
    for started in worlds.values():
        started.close()


def profile(model: Any, batches: Any, steps: int = 2) -> MemoryProfile:
    """Inside a rank."""
    from profiles.memory import MemoryCapture
    from suite.timed_loop import run_profiled

    capture = MemoryCapture(CPU, model)
    with capture:
        run_profiled(
            model.train_step,
            batches.train,
            steps=steps + capture.extra_steps,
            device=CPU,
            around=capture.step,
            done=lambda _: None,
        )
    return capture.record()


def injected(groups: int, categories: Sequence[Category]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Job: for each category the profile without and with 64 MiB more of it."""
    found = []
    run, batches = make("smoke", groups)
    for where in categories:
        model = Larger(run, CPU, where)
        for step in range(WARMUP):
            model.train_step(batches.train(step))
        plain = profile(model, batches)
        model.switch_on()
        found.append((plain.model_dump(), profile(model, batches).model_dump()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "categories"), [(1, CATEGORIES), (2, ("communication_buffers",))])
def test_more_memory_shows_in_its_category(
    groups: int, categories: Sequence[Category], world: Callable[[int], World]
) -> None:
    for of_rank in world(2).run(injected, groups, categories):
        for where, (plain, larger) in zip(categories, of_rank, strict=True):
            moved = {c: larger["at_peak"][c] - plain["at_peak"][c] for c in CATEGORIES}
            # 2 %: the peak may be at another moment of the step, when some less is held.
            assert moved.pop(where) == pytest.approx(INJECTED, rel=0.02), where
            assert max(map(abs, moved.values())) < 0.02 * INJECTED, (where, moved)


def all_of_it(groups: int) -> tuple[int, int, dict[str, int], dict[str, int]]:
    """Job: what the allocator has handed out since before the model was built, and what a capture finds."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    from profiles.memory import MemoryCapture, _read
    from suite.implementation import implementation_class

    run, batches = make("smoke", groups)
    gc.collect()  # models of earlier jobs
    with profiler(activities=[ProfilerActivity.CPU], profile_memory=True) as whole:
        model = implementation_class(run.implementation)(run, CPU)
        for step in range(WARMUP):
            model.train_step(batches.train(step))
    tree = whole.profiler.kineto_results.experimental_event_tree()
    live: dict[int, int] = {}
    for event in _read(tree, {}, CPU)[0]:
        live[event.address] = event.size
    handed_out = sum(size for size in live.values() if size > 0)
    older = MemoryCapture(CPU, model)._before({})
    return handed_out, sum(older.values()), dict(older), dict(model.parameter_bytes())


def test_what_is_older_than_the_pass_is_found(world: Callable[[int], World]) -> None:
    """In groups of one rank, where no tensor is handed to an exchange, so that every free is seen."""
    for handed_out, found, before, told in world(2).run(all_of_it, 2):
        # Within 2 %: Python also reaches what was there before the model.
        assert found == pytest.approx(handed_out, rel=0.02)
        # FBGEMM pads nothing here, so storages are what the views of them add up to.
        assert {c: before[c] for c in LASTING} == {c: told[c] for c in LASTING}
        assert before["gradients"] >= told["dense_parameters"]


def beside_the_model(cases: list[tuple[str, int, str]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Job: what this rank's memory is and what it is modelled to be, of each case."""
    from suite.implementation import implementation_class
    from suite.memory_model import modelled

    found = []
    for workload, groups, sharding in cases:
        implementation = "baseline_1d" if groups == 1 else "reference_2d"
        run, batches = make(workload, groups, implementation, sharding=sharding)
        model = implementation_class(implementation)(run, CPU)
        for step in range(WARMUP):
            model.train_step(batches.train(step))
        # Enough for some in which every free is seen, also on busy cores.
        measured = profile(model, batches, steps=8)
        found.append((measured.model_dump(), vars(modelled(run, model.sharding(), dist.get_rank()))))
        del model
        gc.collect()  # or it is the next one's ``other``
    return found


def check_model(world: World, cases: list[tuple[str, int, str]]) -> None:
    for rank, of_rank in enumerate(world.run(beside_the_model, cases, deadline_s=240)):
        for case, (measured, model) in zip(cases, of_rank, strict=True):
            at_peak, expected = measured["at_peak"], model["at_peak"]
            for category in LASTING:
                assert at_peak[category] == pytest.approx(expected[category], rel=0.01), (
                    case,
                    rank,
                    category,
                )
            rest, rest_expected = (sum(of[c] for c in PASSING) for of in (at_peak, expected))
            # The target is 10 %. What is missing is a few KiB: lengths, splits, one number here and there.
            assert rest > 0.9 * rest_expected, (case, rank)
            if measured["unseen_frees"]:
                continue  # what was not seen to be freed is too much
            assert rest < 1.1 * rest_expected, (case, rank)
            for category in PASSING:
                apart = abs(at_peak[category] - expected[category])
                assert apart < 0.1 * rest, (case, rank, category)


THREE = ("dlrm_small", "movielens_100k", "smoke")


def test_measured_is_modelled_at_two_ranks(world: Callable[[int], World]) -> None:
    cases = [(name, groups, "table_wise") for name in THREE for groups in (1, 2)]
    check_model(world(2), [*cases, ("smoke", 1, "row_wise"), ("smoke", 1, "column_wise")])


@pytest.mark.slow
def test_measured_is_modelled_at_four_ranks(world: Callable[[int], World]) -> None:
    kinds = ("table_wise", "row_wise", "column_wise")
    check_model(world(4), [(name, groups, kind) for name in THREE for groups in (1, 2, 4) for kind in kinds])
