"""Real steps of real ranks under the profiler: components add up, and what is sent is counted right."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from profiles.skew import skew
from reference_impl.layout import RankLayout
from suite.components import COMMUNICATION, COMPONENTS
from suite.errors import RunFailed
from suite.record import ProfileRecord
from tests.helpers.distributed import World

CPU = torch.device("cpu")
WARMUP, STEPS = 5, 6
ATTEMPTS = 3
#: Of a step with a delay and one without.
PAIRS = 9
DELAY_MS = 50
#: Of a delay: where the other ranks wait for it, in the component itself or at the next communication.
WAITS = {
    "input_dist": "input_dist",
    "lookup": "output_dist",
    "output_dist": "output_dist",
    "dense_forward": "output_dist_backward",
    "dense_backward": "output_dist_backward",
    "output_dist_backward": "output_dist_backward",
    "lookup_backward_optimizer": "dense_all_reduce",
    "dense_all_reduce": "dense_all_reduce",
    "dense_optimizer": "replica_sync",
    "replica_sync": "replica_sync",
    "other": "input_dist",
}


def make(workload: str, groups: int, implementation: str = "reference_2d", **changes: Any) -> Any:
    """Inside a rank: the run, its batches."""
    from suite.batches import RankBatches
    from suite.catalog import load_workload
    from suite.data import open_source
    from suite.spec import RunSpec

    spec = load_workload(workload)
    layout = {"world_size": dist.get_world_size(), "replica_groups": groups} | changes
    run = RunSpec.model_validate(
        {"workload": spec, "layout": layout, "implementation": implementation}
        | {"optimizer": spec.defaults.optimizer}
    )
    return run, RankBatches(run, open_source(spec, 0), dist.get_rank(), CPU)


def profile(run: Any, model: Any, batch_of: Callable[[int], Any], steps: int) -> dict[str, Any]:
    """Inside a rank: the profile of steps, as plain data."""
    from profiles.capture import Capture
    from suite.collectives import GroupNames
    from suite.timed_loop import run_profiled

    groups = GroupNames(run.layout.ranks(), dist.get_rank())
    capture = Capture(dist.get_rank(), CPU, model.component_ranges(), groups)
    with capture:
        taken = run_profiled(
            model.train_step,
            batch_of,
            steps=capture.starting_steps + steps,
            device=CPU,
            around=capture.step,
            done=lambda _: None,
        )
    with tempfile.TemporaryDirectory() as scratch:
        return capture.record(taken, Path(scratch), None, Path()).model_dump()


def closure(cases: list[tuple[str, int, str]]) -> list[dict[str, Any]]:
    """Job: the profile of each case, and what a counter counts on the batch of the last step."""
    from suite.collectives import CollectiveCounter, GroupNames
    from suite.implementation import implementation_class

    found = []
    for workload, groups, sharding in cases:
        implementation = "baseline_1d" if groups == 1 else "reference_2d"
        run, batches = make(workload, groups, implementation, sharding=sharding)
        model = implementation_class(implementation)(run, CPU)
        for step in range(WARMUP):
            model.train_step(batches.train(step))
        record = profile(run, model, batches.train, STEPS)
        with CollectiveCounter(GroupNames(run.layout.ranks(), dist.get_rank())) as counter:
            model.train_step(batches.train(STEPS))
        found.append({"profile": record, "counted": [c.model_dump() for c in counter.counts()]})
    return found


def check(world: World, cases: list[tuple[str, int, str]]) -> None:
    for rank, of_rank in enumerate(world.run(closure, cases, deadline_s=240)):
        for case, found in zip(cases, of_rank, strict=True):
            record = ProfileRecord.model_validate(found["profile"])
            assert len(record.steps) == len(record.step_ms) == STEPS
            for step in record.steps:
                # Whole nanoseconds are added as floats of milliseconds.
                total = sum(sample.exposed_ms for sample in step.components.values())
                assert total == pytest.approx(step.step_ms, abs=1e-6)
                assert set(step.components) == set(COMPONENTS)
                for name, sample in step.components.items():
                    assert sample.exposed_ms <= sample.busy_ms + 1e-6, name
                    if name in COMMUNICATION:
                        assert sample.wait_ms + sample.transfer_ms <= sample.exposed_ms + 1e-6, name
            other = statistics.median(s.components["other"].exposed_ms / s.step_ms for s in record.steps)
            assert other < 0.03, (case, rank)
            assert sent(record) == counted(found["counted"]), (case, rank)
            if case == UNPOOLED:  # its ranges have names of their own
                last = record.steps[-1].components
                assert last["output_dist_backward"].calls == 1
                assert last["lookup_backward_optimizer"].busy_ms > 0


def sent(record: ProfileRecord) -> dict[str, tuple[int, int, int]]:
    """Calls, bytes and wire bytes of the last step by group."""
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for component, group in COMMUNICATION.items():
        sample = record.steps[-1].components[component]
        for i, value in enumerate((sample.calls, sample.bytes, sample.wire_bytes)):
            totals[group][i] += value
    return {group: tuple(total) for group, total in totals.items() if total[0]}


def counted(counts: list[dict[str, Any]]) -> dict[str, tuple[int, int, int]]:
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for count in counts:
        # In 1D the sharding group is the world; all-reduces are DDP's.
        group = "sharding" if count["group"] == "world" and count["name"] != "all_reduce" else count["group"]
        for i, field in enumerate(("calls", "bytes", "wire_bytes")):
            totals[group][i] += count[field]
    return {group: tuple(total) for group, total in totals.items()}


BOTH = ("dlrm_small", "movielens_100k")
UNPOOLED = ("lm_vocabulary", 1, "row_wise")


def test_components_add_up_at_one_rank(world: Callable[[int], World]) -> None:
    check(world(1), [(name, 1, "table_wise") for name in BOTH])


def test_components_add_up_at_two_ranks(world: Callable[[int], World]) -> None:
    cases = [(name, groups, "table_wise") for name in BOTH for groups in (1, 2)]
    other = [("movielens_100k", 1, "row_wise"), ("movielens_100k", 1, "column_wise")]
    check(world(2), [*cases, *other, UNPOOLED])


@pytest.mark.slow
def test_components_add_up_at_four_ranks(world: Callable[[int], World]) -> None:
    check(world(4), [(name, groups, "table_wise") for name in BOTH for groups in (1, 2, 4)])


def injected(where: str, groups: int, late: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Job: profiles of steps without and with a delay on one rank, which take turns."""
    from torchrec.distributed import comm_ops

    from tests.helpers.injection import Delayed

    backward = comm_ops.All2All_Pooled_Wait.backward
    run, batches = make("smoke", groups)
    model = Delayed(run, CPU, where)
    for step in range(WARMUP):
        model.train_step(batches.train(step))
    if dist.get_rank() == late:
        model.arm()
    taken = iter(range(10**6))

    def batch_of(step: int) -> Any:
        # The capture's first step is left out, so the first of the record has a delay.
        model.is_on = dist.get_rank() == late and next(taken) % 2 == 1
        return batches.train(step)

    record = profile(run, model, batch_of, 2 * PAIRS)
    comm_ops.All2All_Pooled_Wait.backward = staticmethod(backward)
    return {**record, "steps": record["steps"][1::2]}, {**record, "steps": record["steps"][::2]}


def medians(record: ProfileRecord, field: str) -> dict[str, float]:
    return {
        name: statistics.median(getattr(step.components[name], field) for step in record.steps)
        for name in (COMMUNICATION if field in ("wait_ms", "transfer_ms") else COMPONENTS)
    }


def waiting_with(where: str, late: int, layout: RankLayout) -> set[int]:
    """The other ranks of the group in whose collective the late rank is waited for."""
    members = {
        "world": range(layout.world_size),
        "sharding": layout.sharding_group(layout.group_of(late)),
        "replica": layout.replica_set(layout.index_in_group(late)),
    }
    return set(members[COMMUNICATION[WAITS[where]]]) - {late}


def check_injection(world: World, where: str, groups: int, late: int) -> None:
    """Measured up to three times: a busy machine adds delays of its own to some steps.

    A breakdown that puts the delay elsewhere fails all three.
    """
    for attempt in range(ATTEMPTS):
        try:
            return measure_injection(world, where, groups, late)
        except AssertionError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def measure_injection(world: World, where: str, groups: int, late: int) -> None:
    ranks = [
        [ProfileRecord.model_validate(part) for part in pair]
        for pair in world.run(injected, where, groups, late)
    ]
    # A tenth of the delay. Ranks that take turns on fewer cores wait for each other anyway, some
    # milliseconds here and there, which a delay of one of them hides or shifts.
    share = 0.1 if (os.cpu_count() or 1) >= world.size else 0.4
    waiting = waiting_with(where, late, RankLayout(world.size, groups))
    for rank, (plain, delayed) in enumerate(ranks):
        moved = {
            field: {
                name: value - medians(plain, field)[name] for name, value in medians(delayed, field).items()
            }
            for field in ("exposed_ms", "wait_ms", "transfer_ms")
        }
        if rank == late:
            assert moved["exposed_ms"][where] == pytest.approx(DELAY_MS, rel=share), moved
        elif rank in waiting:
            assert moved["wait_ms"][WAITS[where]] == pytest.approx(DELAY_MS, rel=share), moved
            assert max(moved["transfer_ms"].values()) < share * DELAY_MS, moved
    found = skew({rank: delayed.steps for rank, (_, delayed) in enumerate(ranks)})
    assert (found.straggler, found.component) == (late, where)


@pytest.mark.parametrize("where", WAITS)
def test_a_delay_shows_where_it_is_and_the_others_wait(where: str, world: Callable[[int], World]) -> None:
    check_injection(world(2), where, 2 if WAITS[where] == "replica_sync" else 1, late=1)


@pytest.mark.slow
@pytest.mark.parametrize("late", [0, 3])
@pytest.mark.parametrize("where", WAITS)
def test_a_delay_at_four_ranks_in_2d(where: str, late: int, world: Callable[[int], World]) -> None:
    check_injection(world(4), where, 2, late)


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_trace_that_torch_has_not_written(
    is_begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: torch's export returns as if it had written it."""
    from profiles.capture import Capture
    from suite.collectives import GroupNames

    def export(_: object, path: str) -> None:
        if is_begun:
            Path(path).touch()

    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", export)
    capture = Capture(0, CPU, {}, GroupNames(RankLayout(1), 0))
    with pytest.raises(RunFailed, match="the disk may be full") as caught:
        capture.record((), tmp_path, None, tmp_path)
    report = caught.value.report
    assert (report.kind, report.value) == ("cannot_save", str(tmp_path))
