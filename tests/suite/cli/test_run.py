from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite import store
from suite.selftest.parts import Part
from tests.helpers.records import FakeLauncher, failed_launch, make_launch, make_profile, with_profiles
from tests.suite.cli.conftest import TINY


def test_the_document(cli):
    done = cli("run", TINY, "--world-size", "4", "--replica-groups", "2", "--launches", "3", "--json")
    document = done.document
    assert done.code == document["exit_code"] == 0
    record = store.read(Path(document["record"]))
    assert not Path(document["record"]).is_absolute()
    fixed = {
        "schema_version": 1,
        "verb": "run",
        "status": "complete",
        "workload": "tiny",
        "spec_hash": record.spec_hash,
        "implementation": "reference_2d",
        "world_size": 4,
        "replica_groups": 2,
        "placement": "interleaved",
        "sync": "dense",
        "sync_interval": 1,
        "sync_optimizer_state": "immediate",
        "provenance": "measured",
        "launches": 3,
        "trace": None,
        "error": None,
    }
    assert {name: document[name] for name in fixed} == fixed
    # Not measured: scripts find every name, and null.
    nothing = dict.fromkeys(
        ("busy_ms", "exposed_ms", "wait_ms", "transfer_ms", "bytes", "wire_bytes", "calls")
    )
    assert document["components"]["replica_sync"] == document["components"]["input_dist"] == nothing
    assert document["rollups"] == dict.fromkeys(("lookup", "all_to_all", "optimizer", "replica_sync"))
    # The launches take 5, 5.5 and 6 ms a step of 8 samples; three launches: 75 % confidence.
    assert document["step_ms"] == {"median": 5.5, "low": 5.0, "high": 6.0, "confidence": 0.75}
    assert document["samples_per_s"]["median"] == pytest.approx(8 / 0.0055)
    assert document["memory"] == {
        "embedding_weights": 67,
        "embedding_optimizer_state": 16,
        "dense_parameters": 8,
        "dense_optimizer_state": 0,
        "gradients": None,
        "activations": None,
        "communication_buffers": None,
        "other": None,
        "allocated_peak": None,
        "reserved_peak": None,
        "process": 503,
    }
    # Rank 3 sends most: 100 + 5 * 3 on the wire.
    assert document["wire_bytes"] == 115
    assert sum(c["wire_bytes"] for c in document["collectives"]) == 115
    assert document["collectives"][0] == {
        "name": "all_to_all",
        "group": "sharding",
        "calls": 3,
        "bytes": 200,
        "wire_bytes": 100,
    }
    assert document["quality"] == {
        "auc": 0.75,
        "normalized_entropy": 0.9,
        "log_loss": 0.6,
        "calibration_error": 0.0,
    }
    assert document["environment"]["flags"] == list(record.environment.flags)


def test_components_are_those_of_the_slowest_rank(cli, monkeypatch):
    profiles = [make_profile([20.0, 30.0, 25.0]), make_profile([60.0, 80.0, 70.0], trace="trace/a.gz")]
    launch = with_profiles(make_launch(0, [10.0, 40.0]), profiles)
    monkeypatch.setattr(FakeLauncher, "script", lambda run, index: launch)
    document = cli("run", TINY, "--world-size", "2", "--trace", "1", "--json").document
    # Of the times of a profiled step make_profile gives a tenth to each of these; the middle one counts.
    assert document["components"]["input_dist"] == {
        "busy_ms": pytest.approx(14),
        "exposed_ms": pytest.approx(7),
        "wait_ms": pytest.approx(4),
        "transfer_ms": pytest.approx(2),
        "bytes": 100,
        "wire_bytes": 50,
        "calls": 3,
    }
    assert document["components"]["other"]["exposed_ms"] == pytest.approx(7)
    assert document["components"]["lookup"]["calls"] is None
    assert document["rollups"] == pytest.approx(
        {"lookup": 7, "all_to_all": 21, "optimizer": 7 + 7, "replica_sync": 0}
    )
    assert document["profiling_cost"] == pytest.approx(70 / 40)
    assert document["trace"] == str(Path(document["record"]).parent / "trace")


def test_one_launch_has_no_interval(cli):
    assert cli("run", TINY, "--json").document["step_ms"] == {
        "median": 10.0,
        "low": None,
        "high": None,
        "confidence": None,
    }


def test_in_words_and_where_the_record_is(cli):
    done = cli("run", TINY, "--launches", "5")
    assert done.code == 0
    assert "12.0 [10.0, 14.0]" in done.out
    assert "94% confidence" in done.out
    record = store.load(done.out.rpartition("Record: ")[2].strip(), Path("runs"))
    assert len(record.launches) == 5
    assert "launch 5/5 train 6/6" in done.err


def test_options_reach_the_run_and_what_is_left_out_is_the_workloads_default(cli, launched):
    cli("run", TINY, "--seed", "7", "--learning-rate", "0.5", "--sharding", "row_wise,products=table_wise",
        "--placement", "contiguous", "--world-size", "2", "--scaling", "weak", "--data", "mine",
        "--dense-learning-rate", "0.25", "--stall-timeout", "9", "--steps", "9", "--replica-groups", "2",
        "--sync-interval", "2", "--sync-optimizer-state", "delayed", "--ranks-per-host", "1",
        "--exchange-dtype", "fp16", "--planner-timeout", "7")  # fmt: skip
    ((run, _),) = launched
    assert run.seed == 7
    assert (run.optimizer.name, run.optimizer.learning_rate) == ("rowwise_adagrad", 0.5)
    assert (run.optimizer.dense.name, run.optimizer.dense.learning_rate) == ("adagrad", 0.25)
    assert (run.layout.sharding, run.layout.sharding_by_table) == ("row_wise", {"products": "table_wise"})
    assert run.layout.placement == "contiguous"
    assert (run.sync_interval, run.sync_optimizer_state) == (2, "delayed")
    assert (run.layout.ranks_per_host, run.layout.planner_timeout_s, run.exchange_dtype) == (1, 7, "fp16")
    assert run.global_batch == 8
    assert run.workload.data.location == "mine"
    assert run.stall_timeout_s == 9
    assert (run.steps, run.warmup_steps, run.launches) == (9, 2, 1)


def test_a_scale_of_its_own_or_the_number_of_groups(cli, launched):
    cli("run", TINY, "--optimizer", "momentum_scaled_rowwise_adagrad", "--scale", "3")
    cli("run", TINY, "--optimizer", "momentum_scaled_rowwise_adagrad")
    assert [run.optimizer.scale for run, _ in launched] == [3.0, None]


def test_a_failed_run_says_which_rank_and_log_and_exits_3(cli, monkeypatch):
    monkeypatch.setattr(FakeLauncher, "script", lambda run, index: failed_launch(index))
    done = cli("run", TINY)
    assert done.code == 3
    assert "Error: rank 1: ValueError: told to" in done.err
    log = done.err.rpartition("Log: ")[2].strip()
    assert log.endswith("logs/launch0/rank1.log")
    assert Path(log).parent.is_dir()
    assert "Record: " in done.out


def test_a_message_that_names_its_rank_does_not_name_it_twice(cli, monkeypatch):
    launch = failed_launch()
    error = launch.error.model_copy(update={"message": "Rank 1 raised in step 3."})
    monkeypatch.setattr(FakeLauncher, "script", lambda run, i: launch.model_copy(update={"error": error}))
    assert "Error: Rank 1 raised in step 3." in cli("run", TINY).err


def test_a_failed_run_in_json(cli, monkeypatch):
    script = [make_launch(0), failed_launch(1)]
    monkeypatch.setattr(FakeLauncher, "script", lambda run, index: script[index])
    done = cli("run", TINY, "--launches", "3", "--json")
    document = done.document
    assert done.code == document["exit_code"] == 3
    assert (document["status"], document["launches"]) == ("partial", 1)
    assert document["error"]["rank"] == 1
    assert document["error"]["message"] == "ValueError: told to"
    assert Path(document["error"]["log"]).parent.is_dir()
    assert document["step_ms"]["median"] == 10


@pytest.mark.parametrize("as_json", [True, False])
def test_control_c_exits_130_and_names_the_record(as_json, cli, monkeypatch):
    def script(run, index):
        if index == 1:
            raise KeyboardInterrupt
        return make_launch(index)

    monkeypatch.setattr(FakeLauncher, "script", script)
    done = cli("run", TINY, "--launches", "3", *(["--json"] if as_json else []))
    assert done.code == 130
    if as_json:
        assert done.document["error"]["kind"] == "interrupted"
        path = done.document["record"]
    else:
        assert "Stopped by the user in launch 2 of 3" in done.err
        assert "Traceback" not in done.err
        path = done.err.rpartition("Record: ")[2].strip()
    record = store.load(path, Path("runs"))
    assert (record.status, len(record.launches)) == ("partial", 1)


def test_stdout_holds_nothing_but_the_document(cli):
    done = cli("run", TINY, "--json")
    json.loads(done.out)
    assert "train" in done.err


@pytest.mark.parametrize("status", ["ok", "fail"])
def test_an_implementation_is_checked_before_it_is_run(status, cli, monkeypatch, launched):
    asked = []

    def conformance(case, device):
        asked.append((case.implementation, case.world_size, case.replica_groups, case.placement, device))
        return Part(name=case.name, status=status, message="moment.users is far.", seconds=0.0)

    monkeypatch.setattr("suite.cli.run.conformance", conformance)
    done = cli("run", TINY, "--world-size", "2", "--replica-groups", "2", "--check-implementation", "--json")
    assert asked[0] == ("reference_2d", 2, 2, "interleaved", "cpu")
    if status == "ok":
        assert done.code == 0
        assert {placement for *_, placement, _ in asked} == {"interleaved", "contiguous"}
        assert len(launched) == 1
    else:
        assert (done.code, done.document["error"]["kind"]) == (3, "not_conforming")
        assert launched == []
