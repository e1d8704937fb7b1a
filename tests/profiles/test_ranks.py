"""Waits and transfers of traces written by hand; microseconds are exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiles.breakdown import break_down
from profiles.folder import read_traces
from profiles.ranks import arrivals, offsets, samples
from profiles.skew import skew
from profiles.trace import read
from suite.errors import ConfigError
from suite.implementations.ranges import TORCHREC_RANGES
from suite.record import ProfiledStep
from tests.helpers.kineto import BASE_NS, Kineto


def rank_trace(rank: int, begin: float = 0, late: float = 0, host: str = "node0") -> Kineto:
    """A step of 1,000 us: lookup until 100 (later by ``late``), then an all-to-all that ends at 400, whose
    result is unpacked until 450."""
    trace = Kineto(rank, host=host)
    trace.step(7, begin, begin + 1000)
    trace.range("[lookup]_[ebc]_[table_wise]", begin + 10, begin + 100 + late)
    trace.range("[output_dist]_[ebc]_[table_wise]", begin + 100 + late, begin + 450)
    trace.all_to_all(begin + 100 + late, begin + 110 + late, [10, 10])
    trace.work("all_to_all", begin + 105 + late, begin + 400, 20)
    return trace


def steps_of(*traces: Kineto, folder: Path) -> dict[int, list[ProfiledStep]]:
    found = {
        rank: break_down(read(trace.write(folder / f"rank{rank}.1.pt.trace.json"), TORCHREC_RANGES))
        for rank, trace in enumerate(traces)
    }
    told = {rank: arrivals(steps, traces[rank].content["host_name"]) for rank, steps in found.items()}
    return {rank: samples(steps, rank, told) for rank, steps in found.items()}


def figures(step: ProfiledStep, component: str) -> tuple[float | None, ...]:
    sample = step.components[component]
    of = (sample.busy_ms, sample.exposed_ms, sample.wait_ms, sample.transfer_ms)
    return tuple(None if ms is None else round(ms * 1000, 6) for ms in of)


def test_waiting_ends_when_the_last_rank_arrives(tmp_path: Path) -> None:
    ranks = steps_of(rank_trace(0), rank_trace(1, late=60), folder=tmp_path)
    assert figures(ranks[0][0], "output_dist") == (350, 350, 60, 240)
    assert figures(ranks[1][0], "output_dist") == (290, 290, 0, 240)
    assert figures(ranks[0][0], "lookup") == (90, 90, None, None)
    assert ranks[0][0].components["output_dist"].bytes == 80
    assert ranks[0][0].components["output_dist"].wire_bytes == 40
    found = skew(ranks)
    assert (found.straggler, found.component) == (1, "lookup")
    assert found.late_ms == pytest.approx(0.060)
    assert found.imbalance == pytest.approx(1000 / 970)


def test_a_wait_behind_computation_is_not_exposed(tmp_path: Path) -> None:
    early, late = Kineto(0), Kineto(1)
    for trace, issue in ((early, 100), (late, 500)):
        trace.step(0, 0, 1000)
        trace.range("## dense_backward ##", 0, 900)
        trace.all_reduce(issue, issue + 10, 25)
        trace.work("all_reduce", issue + 5, 700, 25)
        trace.range("## dense_all_reduce wait ##", 600, 800)
    ranks = steps_of(early, late, folder=tmp_path)
    # In flight 100 to 700, of which the call (10) and 600 to 700 are exposed; the last arrived at 500.
    assert figures(ranks[0][0], "dense_all_reduce") == (700, 210, 10, 100)


def test_hosts_are_compared_by_when_their_steps_begin(tmp_path: Path) -> None:
    """The second host's clock is three seconds ahead; both left the barrier together."""
    ranks = steps_of(rank_trace(0), rank_trace(1, 3_000_000, late=60, host="node1"), folder=tmp_path)
    assert figures(ranks[0][0], "output_dist") == (350, 350, 60, 240)
    assert figures(ranks[1][0], "output_dist") == (290, 290, 0, 240)
    read_again = read_traces(tmp_path)
    assert read_again.clock == "aligned_steps"
    assert read_again.ranks == ranks


def test_one_host_is_one_clock(tmp_path: Path) -> None:
    """Here a later start is a later start."""
    steps_of(rank_trace(0), rank_trace(1, 50), folder=tmp_path)
    found = read_traces(tmp_path)
    assert found.clock == "one_host"
    assert figures(found.ranks[0][0], "output_dist") == (350, 350, 50, 250)


def test_base_times_may_differ(tmp_path: Path) -> None:
    other = rank_trace(1, late=60)
    other.content["baseTimeNanoseconds"] = BASE_NS - 5_000_000
    for event in other.content["traceEvents"]:
        event["ts"] += 5_000
    ranks = steps_of(rank_trace(0), other, folder=tmp_path)
    assert figures(ranks[0][0], "output_dist") == (350, 350, 60, 240)


def test_a_missing_rank_makes_waits_unknown(tmp_path: Path) -> None:
    rank_trace(0).write(tmp_path / "a.1.pt.trace.json.gz")
    found = read_traces(tmp_path)
    assert figures(found.ranks[0][0], "output_dist") == (350, 350, None, None)
    assert found.ranks[0][0].components["output_dist"].bytes == 80
    assert found.notes == ("traces of 1 of 2 ranks are missing (1): waits for them are unknown",)
    assert skew(found.ranks).straggler is None


def test_ranks_that_issued_unlike_collectives_are_not_matched(tmp_path: Path) -> None:
    other = rank_trace(1)
    other.all_to_all(200, 210, [10, 10])
    ranks = steps_of(rank_trace(0), other, folder=tmp_path)
    assert figures(ranks[0][0], "output_dist") == (350, 350, None, None)


def test_an_offset_needs_a_step_in_common(tmp_path: Path) -> None:
    alone = arrivals([], "node1")
    assert offsets({0: arrivals([], "node0"), 1: alone}) == ({0: 0, 1: 0}, "aligned_steps")


def test_two_files_of_one_rank_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        rank_trace(0).write(tmp_path / f"{name}.1.pt.trace.json")
    with pytest.raises(ConfigError, match=r"two files are of rank 0: a\.1.*b\.1"):
        read_traces(tmp_path)


def test_several_files_must_say_their_rank(tmp_path: Path) -> None:
    """Or tools take all for one rank (HolisticTraceAnalysis issue 107)."""
    for name in ("a", "b"):
        trace = rank_trace(0)
        del trace.content["distributedInfo"]
        trace.write(tmp_path / f"{name}.1.pt.trace.json")
    with pytest.raises(ConfigError, match="which rank it is of"):
        read_traces(tmp_path)
    (tmp_path / "b.1.pt.trace.json").unlink()
    (step,) = read_traces(tmp_path).ranks[0]
    assert step.components["output_dist"].exposed_ms == pytest.approx(0.35)
    assert step.components["output_dist"].wait_ms is None
