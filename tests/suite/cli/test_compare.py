from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.records import FakeLauncher, failed_launch, make_launch
from tests.suite.cli.conftest import OTHER, TINY


def ran(cli, *options: str, workload: str = TINY) -> str:
    return cli("run", workload, "--launches", "5", *options, "--json").document["run_id"]


TWO_D = ("--world-size", "2", "--replica-groups", "2")


def test_1d_and_2d(cli):
    one, two = ran(cli, "--world-size", "2", "--implementation", "baseline_1d"), ran(cli, *TWO_D)
    done = cli("compare", one, two, "--json")
    document = done.document
    assert done.code == document["exit_code"] == 0
    assert document["verdict"] == document["parts"]["regression"]["verdict"] == "better"
    rows = {row["name"]: row for row in document["metrics"]}
    assert set(rows["step_ms"]) == {
        "name", "unit", "direction", "before", "after", "ratio", "low", "high", "verdict", "reason",
    }  # fmt: skip
    assert (rows["step_ms"]["before"], rows["step_ms"]["after"]) == (12, 6)
    assert rows["step_ms"]["verdict"] == "better"
    assert rows["auc"]["verdict"] == "inconclusive"
    assert [d["field"] for d in document["differences"]] == ["implementation", "layout.replica_groups"]


def test_in_words(cli):
    done = cli("compare", ran(cli, "--world-size", "2"), ran(cli, *TWO_D))
    assert "layout.replica_groups: 1 -> 2" in done.out
    assert "auc, normalized_entropy, log_loss: one seed in common" in done.out
    assert "Verdict: better" in done.out
    table = [
        line for line in done.out.splitlines() if line.endswith(("equivalent", "better", "inconclusive"))
    ]
    assert "memory.embedding_optimizer_state" in {line.split()[0] for line in table}
    assert max(map(len, table)) <= 80


def test_sets_of_runs(cli):
    one = [ran(cli, "--world-size", "2", "--seed", str(seed)) for seed in range(2)]
    two = [ran(cli, *TWO_D, "--seed", str(seed)) for seed in range(2)]
    document = cli("compare", ",".join(one), ",".join(two), "--json").document
    rows = {row["name"]: row for row in document["metrics"]}
    assert rows["auc"]["verdict"] == "equivalent"
    assert "2 paired seeds" in rows["auc"]["reason"]
    assert document["before"] == one


def test_unlike_workloads_are_refused_unless_allowed(cli):
    one, two = ran(cli), ran(cli, workload=OTHER)
    done = cli("compare", one, two, "--json")
    assert done.code == 2
    assert done.document["verdict"] == done.document["error"]["kind"] == "incomparable"
    assert "--allow spec" in done.document["error"]["message"]
    assert cli("compare", one, two, "--allow", "spec").code == 0


def test_a_run_that_failed_did_not_run(cli, monkeypatch):
    fine = ran(cli)
    monkeypatch.setattr(FakeLauncher, "script", lambda run, index: failed_launch(index))
    failed = ran(cli)
    done = cli("compare", fine, failed, "--json")
    assert done.code == 2
    assert done.document["verdict"] == "did_not_run"


def test_the_same_configuration_on_both_sides(cli):
    done = cli("compare", ran(cli), ran(cli), "--json")
    assert {row["verdict"] for row in done.document["metrics"]} <= {"equivalent", "inconclusive"}


@pytest.mark.parametrize("form", ["folder", "file"])
def test_runs_named_by_path(form, cli):
    run = ran(cli)
    (record,) = Path("runs").glob(f"*/*/{run}/record.json")
    name = str(record if form == "file" else record.parent)
    assert cli("compare", name, name, "--runs", "elsewhere").code == 0


def test_reproduced(cli):
    run = ran(cli)
    done = cli("reproduce", run, "--json")
    document = done.document
    assert done.code == document["exit_code"] == 0
    assert document["original"] == run
    assert document["run"]["status"] == "complete"
    assert Path(document["run"]["record"]).is_file()
    assert {row["name"]: row["verdict"] for row in document["metrics"]}["wire_bytes"] == "equivalent"
    assert isinstance(document["environment_differences"], list)


@pytest.mark.parametrize(("change", "name"), [({"wire_bytes": 99}, "wire_bytes"), ({"auc": 0.74}, "auc")])
def test_a_deterministic_metric_that_came_out_otherwise_is_not_reproduced(change, name, cli, monkeypatch):
    run = ran(cli)
    monkeypatch.setattr(
        FakeLauncher, "script", lambda run, index: make_launch(index, [10 * (1 + index / 10)], **change)
    )
    done = cli("reproduce", run, "--json")
    assert done.code == 1
    assert {row["name"]: row["verdict"] for row in done.document["metrics"]}[name] in ("better", "worse")
    assert (
        f"Not reproduced: {'bytes, wire_bytes' if name == 'wire_bytes' else name} came"
        in cli("reproduce", run).out
    )


def test_what_is_equal_to_the_last_bit_is_reproduced_though_speed_is_undecided(cli):
    run = cli("run", TINY, "--json").document["run_id"]
    out = cli("reproduce", run).out
    assert "Verdict: inconclusive" in out
    assert "Reproduced: all 10 deterministic metrics are equal to the last bit; undecided" in out
    assert "bytes, wire_bytes, calls, 7 more: deterministic, and equal to the last bit." in out


def test_another_processor_leaves_quality_undecided(cli, monkeypatch):
    run = ran(cli)
    monkeypatch.setattr("suite.environment._cpu_facts", lambda: {"model name": "another"})
    done = cli("reproduce", run)
    assert done.code == 0
    assert "Not decided: auc, normalized_entropy, log_loss cannot be compared" in done.out


def test_slower_beyond_noise_is_not_reproduced(cli, monkeypatch):
    run = ran(cli)
    monkeypatch.setattr(FakeLauncher, "script", lambda run, index: make_launch(index, [20 + index]))
    done = cli("reproduce", run)
    assert done.code == 1
    assert "Verdict: worse" in done.out
    assert "Not reproduced: worse beyond noise in samples_per_s, step_ms." in done.out


def test_reproducing_what_fails_exits_3_and_keeps_the_record(cli, monkeypatch):
    run = ran(cli)
    monkeypatch.setattr(FakeLauncher, "script", lambda run, index: failed_launch(index))
    done = cli("reproduce", run, "--json")
    assert done.code == 3
    assert done.document["verdict"] == "did_not_run"
    assert Path(done.document["run"]["record"]).is_file()


def test_reproduce_names_what_differs_in_the_environment(cli, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    run = ran(cli)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    done = cli("reproduce", run)
    assert "environment.variables.OMP_NUM_THREADS: 1 -> 2" in done.out
