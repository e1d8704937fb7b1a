from __future__ import annotations

from pathlib import Path

import pytest

from suite import store
from tests.helpers.records import FakeLauncher, failed_launch, succeed
from tests.suite.cli.conftest import OTHER, TINY


def lines(text: str, start: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip().startswith(start)]


def test_the_table_shows_2d_beside_1d_at_the_same_world_size(cli):
    done = cli("sweep", TINY, "--world-sizes", "1,2,4", "--replica-groups", "1,2,4")
    assert done.code == 0
    # 8 samples in 10 ms in 1D, in 10 / M ms in 2D.
    assert lines(done.out, "1D") == [
        ["1D", "T=1", "800", "10.0", "500", "B", "100", "B", "0.7500", "1.00x"],
        ["1D", "T=2", "800", "10.0", "501", "B", "105", "B", "0.7500", "1.00x"],
        ["1D", "T=4", "800", "10.0", "503", "B", "115", "B", "0.7500", "1.00x"],
    ]
    assert [row[-1] for row in lines(done.out, "2D")] == ["2.00x", "2.00x", "4.00x"]


def test_by_default_m_follows_the_world_sizes(cli, launched):
    assert cli("sweep", TINY, "--world-sizes", "1").code == 0
    assert cli("sweep", TINY, "--world-sizes", "2").code == 0
    layouts = [(run.layout.world_size, run.layout.replica_groups) for run, _ in launched]
    assert layouts == [(1, 1), (2, 1), (2, 2)]


def test_it_fits_80_columns_with_intervals(cli):
    done = cli("sweep", TINY, "--launches", "5")
    table = [line for line in done.out.splitlines() if line.strip().startswith(("1D", "2D"))]
    assert len(table) == 6
    assert all("]" in line for line in table)
    assert max(map(len, table)) <= 80


def test_a_host_has_no_more_ranks_than_there_are(cli, launched):
    done = cli("sweep", TINY, "--world-sizes", "1,2,4", "--replica-groups", "1", "--ranks-per-host", "2")
    assert done.code == 0
    assert [run.layout.ranks_per_host for run, _ in launched] == [1, 2, 2]


def test_it_says_which_1d_it_was(cli):
    done = cli("sweep", TINY, "--world-sizes", "2", "--replica-groups", "1,2", "--exchange-dtype", "fp16",
               "--sharding", "column_wise,people=table_wise")  # fmt: skip
    said = (
        "1D is baseline_1d, tables column_wise, people table_wise, vectors exchanged in fp16, pipeline none."
    )
    assert said in " ".join(done.out.split())


def test_each_workload_has_its_table(cli):
    done = cli("sweep", TINY, OTHER, "--world-sizes", "2", "--replica-groups", "1,2")
    assert done.out.index("tiny  measured") < done.out.index("other  measured")
    assert len(lines(done.out, "2D")) == 2
    assert "global batch 16" in done.out


def test_without_1d_there_is_nothing_to_be_faster_than(cli):
    done = cli("sweep", TINY, "--world-sizes", "2,4", "--replica-groups", "2")
    assert [row[-1] for row in lines(done.out, "2D")] == ["-", "-"]


def test_a_world_size_that_is_left_out_is_named(cli):
    done = cli("sweep", TINY, "--world-sizes", "1,2", "--replica-groups", "2")
    assert done.code == 0
    assert "T=1 is left out" in done.err
    assert len(lines(done.out, "2D")) == 1
    assert lines(done.out, "1D") == []


def test_the_document_and_the_records(cli):
    done = cli("sweep", TINY, "--world-sizes", "2", "--replica-groups", "1,2", "--json")
    runs = done.document["runs"]
    assert done.code == done.document["exit_code"] == 0
    assert [(r["implementation"], r["world_size"], r["replica_groups"]) for r in runs] == [
        ("baseline_1d", 2, 1),
        ("reference_2d", 2, 2),
    ]
    assert [store.read(Path(r["record"])).status for r in runs] == ["complete", "complete"]
    assert all(r["error"] is None for r in runs)
    assert set(done.document["environment"]["flags"]) == set(runs[1]["environment"]["flags"])


@pytest.mark.parametrize("as_json", [True, False])
def test_a_configuration_that_fails_is_reported_and_the_others_go_on(as_json, cli, monkeypatch):
    def script(run, index):
        return failed_launch() if run.implementation == "baseline_1d" else succeed(run, index)

    monkeypatch.setattr(FakeLauncher, "script", script)
    done = cli(
        "sweep", TINY, "--world-sizes", "2", "--replica-groups", "1,2", *(["--json"] if as_json else [])
    )
    assert done.code == 3
    assert "rank 1: ValueError: told to" in done.err
    if as_json:
        failed, fine = done.document["runs"]
        assert (failed["status"], failed["error"]["kind"], failed["error"]["rank"]) == (
            "failed",
            "rank_raised",
            1,
        )
        assert failed["step_ms"] is None
        assert fine["status"] == "complete"
    else:
        assert lines(done.out, "1D") == [["1D", "T=2", "failed"]]
        assert lines(done.out, "2D")[0][-1] == "-"


def test_more_ranks_than_cores_are_noted_under_the_table(cli, monkeypatch):
    monkeypatch.setattr("suite.environment.available_cores", lambda: 2)
    done = cli("sweep", TINY, "--world-sizes", "2,4", "--replica-groups", "1")
    note = next(line for line in done.out.splitlines() if line.startswith("Note: oversubscribed"))
    assert "(1D T=4)" in note


def test_weak_scaling_shows_every_global_batch(cli):
    done = cli("sweep", TINY, "--scaling", "weak", "--world-sizes", "1,2,4", "--replica-groups", "1")
    assert "global batch 4, 8, 16 (weak scaling)" in done.out


def test_progress_names_configuration_and_launch(cli):
    done = cli("sweep", TINY, "--world-sizes", "2", "--replica-groups", "1,2", "--launches", "2")
    assert "[2/2] tiny 2D T=2 M=2: launch 2/2 train 6/6" in done.err
    assert "[1/2] tiny 1D T=2: 764 samples/s" in done.err


def test_resuming_is_said_on_screen(cli, monkeypatch):
    command = ("sweep", TINY, "--world-sizes", "2", "--replica-groups", "1", "--launches", "3")

    def stop(run, index):
        if index == 2:
            raise KeyboardInterrupt
        return succeed(run, index)

    monkeypatch.setattr(FakeLauncher, "script", stop)
    assert "--resume" in cli(*command).err
    monkeypatch.setattr(FakeLauncher, "script", succeed)
    assert "(kept 2 of 3 launches of an earlier call)" in cli(*command, "--resume").err
    done = cli(*command, "--resume", "--json")
    assert "(kept 3 of 3 launches of an earlier call: nothing was run)" in done.err
    assert done.document["runs"][0]["launches_kept"] == 3
    done = cli("run", TINY, "--world-size", "2", "--launches", "3", "--resume", "--json")
    assert done.document["launches_kept"] == 0, "1D is another implementation"
