"""``sparse2d trace`` on records and traces made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.kineto import Kineto
from tests.helpers.records import FakeLauncher, make_launch, make_profile, with_memory, with_profiles
from tests.suite.cli.conftest import TINY


@pytest.fixture
def run(cli, monkeypatch):
    """``run(10, 40)``: the record of a run whose two ranks' profiled steps take that long."""

    def make(*step_ms: float, trace: str | None = None) -> str:
        profiles = [make_profile([ms] * 3, trace=trace) for ms in step_ms]
        launch = with_profiles(make_launch(0, [10.0] * len(step_ms)), profiles)
        monkeypatch.setattr(FakeLauncher, "script", lambda run, index: launch)
        return cli("run", TINY, "--world-size", str(len(step_ms)), "--json").document["record"]

    return make


def test_the_document(cli, run):
    document = cli("trace", run(10, 40), "--json").document
    assert document["verb"] == "trace"
    assert document["ranks"]["1"]["step_ms"] == 40
    assert document["ranks"]["1"]["components"]["input_dist"]["exposed_ms"] == pytest.approx(4)
    assert document["ranks"]["1"]["other_share"] == pytest.approx(0.1)
    assert document["ranks"]["1"]["rollups"]["all_to_all"] == pytest.approx(12)
    # Of a step four communications wait 2/35 each.
    assert document["ranks"]["1"]["work_ms"] == pytest.approx(40 * (1 - 8 / 35))
    assert document["imbalance"] == pytest.approx(40 / 25)
    assert document["straggler"]["rank"] == 1
    assert document["rank_bytes"] == {"0": 400, "1": 400}


def test_the_tree_fits_80_columns(cli, run):
    done = cli("trace", run(10, 40))
    assert done.code == 0
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "tiny 1D T=2 reference_2d: 3 profiled steps" in done.out
    assert "rank 0 (slowest in plain steps): 10.0 ms a step" in done.out
    row = next(line for line in lines if "dense_backward" in line)
    assert "█▍" in row
    assert "1.00 ms  10.0%" in row
    assert "wait 0.571 ms, transfer 0.286 ms, 50 B on the wire, 3 calls" in done.out
    assert "Imbalance: 1.60" in done.out
    assert "Straggler: rank 1, late in" in done.out
    assert "Cost of looking: a profiled step takes 1.00x a plain one (10.0 ms)" in done.out
    # There is no replica sync in 1D.
    assert "replica_sync" not in done.out


def test_memory_of_the_rank_that_allocates_most(cli, monkeypatch):
    profiled = with_profiles(make_launch(0, [10.0, 10.0]), [make_profile([10] * 3)] * 2)
    launch = with_memory(profiled, [1 << 20, 3 << 20])
    monkeypatch.setattr(FakeLauncher, "script", lambda run, index: launch)
    record = cli("run", TINY, "--world-size", "2", "--json").document
    assert record["memory"]["activations"] == 3 << 20
    document = cli("trace", record["record"], "--json").document["memory"]
    assert document["largest_rank"] == 1
    of = document["ranks"]["1"]
    assert sum(of["at_peak"].values()) == of["allocated_peak"] == (3 << 20) + 65 + 16 + 8
    assert of["by_component"] == {"lookup": 65 + 16 + 8, "dense_backward": of["allocated_peak"]}
    assert of["modelled"]["reason"] == "the record does not say how tables are sharded"
    out = cli("trace", record["record"]).out
    assert max(len(line) for line in out.splitlines() if not line.startswith("The peak is")) <= 80
    rows = [line.split() for line in out.splitlines()]
    assert ["activations", "3", "MiB", "-", "3", "MiB"] in rows
    assert ["process", "501", "B"] in rows
    both = [line.split() for line in cli("trace", record["record"], record["record"]).out.splitlines()]
    assert ["activations", "3", "MiB", "3", "MiB", "0", "B"] in both


def test_many_ranks_are_not_all_shown(cli, run):
    record = run(*(10.0 + i for i in range(10)))
    out = cli("trace", record).out
    assert [rank for rank in range(10) if f"rank {rank}" in out.partition("Imbalance")[0]] == [0, 9]
    assert "8 more ranks are in --json." in out
    assert len(cli("trace", record, "--json").document["ranks"]) == 10


def test_two_runs(cli, run):
    before, after = run(10, 10), run(20, 20)
    document = cli("trace", before, after, "--json").document
    assert document["difference"]["step_ms"] == pytest.approx(10)
    assert document["difference"]["components"]["lookup"] == pytest.approx(1)
    assert document["before"]["ranks"].keys() == document["after"]["ranks"].keys()
    out = cli("trace", before, after).out
    assert next(line.split() for line in out.splitlines() if line.startswith("lookup ")) == [
        "lookup", "1.00", "2.00", "+1.00",
    ]  # fmt: skip


def test_a_run_that_was_not_profiled(cli):
    record = cli("run", TINY, "--json").document["record"]
    done = cli("trace", record)
    assert done.code == 2
    assert "it profiled no step" in done.err
    assert "--profile-steps" in done.err


def test_a_folder_of_somebodys_traces(cli):
    for rank in (0, 1):
        trace = Kineto(rank)
        trace.step(0, 0, 1000)
        trace.range("[lookup]_[ebc]_[table_wise]", 0, 400)
        trace.write(Path(f"mine/worker{rank}.170.pt.trace.json.gz"))
    document = cli("trace", "mine", "--json").document
    assert document["ranks"]["0"]["components"]["lookup"]["exposed_ms"] == 0.4
    assert document["ranks"]["0"]["other_share"] == 0.6
    assert document["ranks"]["0"]["plain_step_ms"] is None
    assert "rank 0 (slowest): 1.00 ms a step" in cli("trace", "mine").out


@pytest.mark.parametrize("make", [lambda folder: None, lambda folder: (folder / "notes.txt").write_text("x")])
def test_a_folder_of_nothing(make, cli, tmp_path):
    folder = tmp_path / "nothing"
    folder.mkdir()
    make(folder)
    done = cli("trace", str(folder), "--json")
    assert done.code == done.document["exit_code"] == 2
    assert done.document["error"]["field"] == "run"
    assert "holds neither a record.json nor a trace" in done.document["error"]["message"]


def test_how_to_open(cli, run):
    record = run(10, 10, trace="trace/launch0/rank0.1.pt.trace.json.gz")
    kept = Path(record).parent / "trace" / "launch0"
    Kineto().write(kept / "rank0.1.pt.trace.json.gz")
    assert f"tensorboard --logdir {kept.parent}" in cli("trace", record, "--open", "tensorboard").out
    perfetto = cli("trace", record, "--open", "perfetto").out
    assert "https://ui.perfetto.dev" in perfetto
    assert str(kept / "rank0.1.pt.trace.json.gz") in perfetto
    done = cli("trace", run(10, 10), "--open", "perfetto")
    assert (done.code, "its traces were not kept" in done.err) == (2, True)
    assert cli("trace", record, "--open", "emacs").code == 2


def test_trace_alone_is_all_ranks(cli, launched):
    options = ("--world-size", "4")
    cli("run", "--trace", TINY, *options)
    cli("run", TINY, *options, "--trace", "--json")
    cli("run", TINY, *options, "--trace", "slowest")
    cli("run", TINY, "--trace", "0,3", *options)
    assert [run.trace for run, _ in launched] == ["all", "all", "slowest", "0,3"]
    assert [run.traced_ranks for run, _ in launched] == [(0, 1, 2, 3), (0, 1, 2, 3), None, (0, 3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--trace", "7"), "there is no rank 7 among 1"),
        (("--trace", "0,x"), "trace"),
        (("--trace", "--profile-steps", "0"), "there are none"),
        (("--profile-steps", "-1"), "profile_steps"),
    ],
)
def test_traces_that_cannot_be_taken_are_refused_before_a_launch(options, message, cli, launched):
    done = cli("run", TINY, *options)
    assert done.code == 2
    assert message in done.err
    assert launched == []
