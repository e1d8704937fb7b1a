"""Wrong command lines: one clear error each, exit code 2, and nothing made or launched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.suite.cli.conftest import OTHER, TINY

WRONG = [
    # command line, field, value, a word of the message
    ([], "command line", "", "Missing command"),
    (["fly"], "command line", "fly", "No such command"),
    (["workloads", "hide"], "command line", "workloads hide", "No such command"),
    (["run"], "workload", None, "missing"),
    (["run", TINY, "another"], "command line", f"run {TINY} another", "unexpected extra argument"),
    (["run", TINY, "--wolrd-size", "2"], "--wolrd-size", "2", "No such option"),
    (["run", TINY, "--world-size", "two"], "--world-size", "two", "integer"),
    (["run", TINY, "--world-size=1.5"], "--world-size", "1.5", "integer"),
    (["run", TINY, "--steps"], "--steps", None, "requires an argument"),
    (["run", "no_such_workload"], "workload", "no_such_workload", ""),
    (["run", "no/such/file.toml"], "workload", "no/such/file.toml", ""),
    (["run", "no_module:function"], "workload", "no_module:function", "No module named"),
    (
        ["run", "tests.helpers.records:no_function"],
        "workload",
        "tests.helpers.records:no_function",
        "no_function",
    ),
    (["run", TINY, "--world-size", "0"], "layout.world_size", 0, "greater than or equal to 1"),
    (["run", TINY, "--world-size", "-2"], "layout.world_size", -2, "greater than or equal to 1"),
    (
        ["run", TINY, "--world-size", "4", "--replica-groups", "3"],
        "layout.replica_groups",
        3,
        "cannot be split",
    ),
    (["run", TINY, "--replica-groups", "0"], "layout.replica_groups", 0, "greater than or equal to 1"),
    (["run", TINY, "--placement", "random"], "layout.placement", "random", "interleaved"),
    (["run", TINY, "--sync", "sparse"], "sync", "sparse", "dense"),
    (["run", TINY, "--sync-interval", "0"], "sync_interval", 0, "greater than or equal to 1"),
    (
        ["run", TINY, "--world-size", "2", "--replica-groups", "2", "--sync-interval", "3"],
        "sync_interval",
        3,
        "2 warm-up and 4 timed steps",
    ),
    (["run", TINY, "--sync-optimizer-state", "late"], "sync_optimizer_state", "late", "delayed"),
    (
        ["run", TINY, "--sync-optimizer-state", "delayed", "--optimizer", "sgd"],
        "sync_optimizer_state",
        "delayed",
        "no optimizer state",
    ),
    (["run", TINY, "--implementation", "mine"], "implementation", "mine", "no such implementation"),
    (
        ["run", TINY, "--implementation", "json:dumps"],
        "implementation",
        "json:dumps",
        "not an Implementation",
    ),
    (
        ["run", TINY, "--world-size", "2", "--replica-groups", "2", "--implementation", "baseline_1d"],
        "layout.replica_groups",
        2,
        "one only",
    ),
    (
        ["run", TINY, "--replica-groups", "1", "--implementation", "torchrec_dmp_collection"],
        "device",
        "cpu",
        "asserts CUDA",
    ),
    (["run", TINY, "--checkpoint-every", "2"], "checkpoint_every", 2, "nothing is kept"),
    (["run", TINY, "--checkpoint", "x", "--checkpoint-every", "9"], "checkpoint.every", 9, "ends after"),
    (["run", TINY, "--start-from", "nowhere"], "start_from", "nowhere", "no checkpoint"),
    (["run", TINY, "--checkpoint", "x"], "implementation", "reference_2d", "checkpoint_state"),
    (["run", TINY, "--learning-rate", "1e39"], "optimizer.learning_rate", 1e39, "float32"),
    (["run", TINY, "--optimizer", "adamw"], "optimizer.name", "adamw", "rowwise_adagrad"),
    (["run", TINY, "--optimizer", "adam"], "optimizer.name", "adam", "no fused kernel of it on cpu"),
    (
        ["run", TINY, "--optimizer", "sgd", "--initial-accumulator", "0.1"],
        "optimizer.initial_accumulator",
        0.1,
        "accumulates no squares",
    ),
    (["run", "smoke,rows=5"], "workload", "rows=5", "PARAMETER=VALUE"),
    (["run", TINY, "--learning-rate", "-0.1"], "optimizer.learning_rate", -0.1, "greater than 0"),
    (["run", TINY, "--learning-rate", "nan"], "optimizer.learning_rate", "nan", "finite"),
    (["run", TINY, "--eps", "0"], "optimizer.eps", 0.0, "greater than 0"),
    (["run", TINY, "--scale", "4"], "optimizer.scale", 4.0, "has no momentum scale"),
    (["run", TINY, "--dense-optimizer", "lamb"], "optimizer.dense.name", "lamb", "adagrad"),
    (["run", TINY, "--sharding", "diagonal"], "sharding", "diagonal", "no sharding type"),
    (["run", TINY, "--sharding", "table_wise,people"], "sharding", "table_wise,people", "TABLE=TYPE"),
    (
        ["run", TINY, "--sharding", "table_wise,people=row_wise,people=row_wise"],
        "sharding",
        "table_wise,people=row_wise,people=row_wise",
        "again",
    ),
    (
        ["run", TINY, "--sharding", "table_wise,nobody=row_wise"],
        "layout.sharding_by_table",
        "nobody",
        "no such table",
    ),
    (
        ["run", TINY, "--sharding", "row_wise", "--world-size", "4"],
        "tables.products.rows",
        3,
        "without rows",
    ),
    (["run", TINY, "--world-size", "4", "--ranks-per-host", "3"], "layout.ranks_per_host", 3, "evenly"),
    (
        ["run", TINY, "--world-size", "6", "--replica-groups", "2", "--ranks-per-host", "3"],
        "layout.ranks_per_host",
        3,
        "spread evenly",
    ),
    (["run", TINY, "--ranks-per-host", "0"], "layout.ranks_per_host", 0, "greater than or equal to 1"),
    (
        ["run", TINY, "--sharding", "planned,people=chosen"],
        "sharding",
        "planned,people=chosen",
        "no sharding type",
    ),
    (["run", TINY, "--planner-timeout", "0"], "layout.planner_timeout_s", 0.0, "greater than 0"),
    (["run", TINY, "--exchange-dtype", "int8"], "exchange_dtype", "int8", "fp16"),
    (
        ["run", TINY, "--sharding", "grid", "--world-size", "4", "--ranks-per-host", "4"],
        "tables.products.rows",
        3,
        "without rows",
    ),
    (["run", TINY, "--scaling", "superb"], "scaling", "superb", "strong"),
    (["run", TINY, "--steps", "2"], "steps", 2, "no step is left"),
    (["run", TINY, "--launches", "0"], "launches", 0, "greater than or equal to 1"),
    (["run", TINY, "--launcher", "magic"], "launcher", "magic", "local"),
    (["run", TINY, "--launcher", "torchrun"], "launcher", "torchrun", "variables are not there"),
    (["sweep", TINY, "--launcher", "torchrun"], "launcher", "torchrun", "one launch"),
    (["run", TINY, "--slurm-partition", "batch"], "slurm_partition", "batch", "no job is submitted"),
    (["run", TINY, "--launcher", "slurm", "--slurm-jobs", "many"], "slurm_jobs", "many", "no such way"),
    (["run", TINY, "--launcher", "slurm", "--slurm-options", "'"], "slurm_options", "'", "cannot be split"),
    (
        ["run", TINY, "--launcher", "slurm", "--slurm-options", "--array=0-3"],
        "slurm_options",
        "--array=0-3",
        "changes what the job runs",
    ),
    *(
        (["run", TINY, "--launcher", "slurm", "--slurm-options", words], "slurm_options", words, said)
        for words, said in (
            ("-N 2", "-N is no option's long name"),
            ("--qos=low job.sh", "job.sh is no option's long name"),
            ("--arr=0-1", "changes what the job runs"),
            ("--help", "changes what the job runs"),
        )
    ),
    (["run", TINY, "--world-size", "4", "--slurm-nodes", "3"], "slurm_nodes", 3, "spread evenly"),
    (
        ["run", TINY, "--world-size", "4", "--slurm-nodes", "2", "--ranks-per-host", "4"],
        "slurm_nodes",
        2,
        "1 hosts",
    ),
    (["run", TINY, "--seed", "-1"], "seed", -1, "greater than or equal to 0"),
    (["run", TINY, "--device", "tpu"], "device", "tpu", "cpu"),
    (["run", TINY, "--device", "cuda", "--world-size", "64"], "device", "cuda", "GPUs"),
    (["run", TINY, "--stall-timeout", "0.1"], "stall_timeout_s", 0.1, "greater than or equal to 2"),
    (["sweep"], "workloads", None, "missing"),
    (["sweep", TINY, "--world-sizes", "1,two"], "world_sizes", "1,two", "whole numbers"),
    (["sweep", TINY, "--world-sizes", ""], "world_sizes", "", "whole numbers"),
    (["sweep", TINY, "--world-sizes", "2,2"], "world_sizes", 2, "twice"),
    (["sweep", TINY, "--world-sizes", "2,4", "--replica-groups", "1,3"], "replica_groups", 3, "divides none"),
    (["sweep", TINY, TINY], "workload", [TINY, TINY], "twice"),
    # The second workload is wrong: the first must not have been launched.
    (["sweep", TINY, "no_such_workload"], "workload", "no_such_workload", ""),
    (["sweep", OTHER, "--implementation", "baseline_1d"], "layout.replica_groups", 2, "one only"),
    (["compare", "a"], "after", None, "missing"),
    (["compare", "a", "b"], "run", "a", "no such run"),
    (["compare", "a", "b", "c", "d"], "command line", "compare a b c d", "two sides"),
    (["compare", "a", "b", "--allow", "everything"], "allow", "everything", "cannot be allowed"),
    (["reproduce", "nothing"], "run", "nothing", "no such run"),
    (["workloads", "show", "no_such_workload"], "workload", "no_such_workload", ""),
]
IDS = [" ".join(arguments) or "nothing" for arguments, *_ in WRONG]


@pytest.mark.parametrize(("arguments", "field", "value", "words"), WRONG, ids=IDS)
def test_in_words(arguments, field, value, words, cli, launched, tmp_path):
    done = cli(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert sum(line.startswith("Error:") for line in done.err.splitlines()) == 1
    assert done.err.startswith("Error: " + field)
    assert words in done.err
    assert "Remedy: " in done.err
    assert "Traceback" not in done.err
    assert launched == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("arguments", "field", "value", "words"), WRONG[1:], ids=IDS[1:])
def test_in_json(arguments, field, value, words, cli, launched, tmp_path):
    done = cli(*arguments[:1], "--json", *arguments[1:])
    error = done.document["error"]
    assert (done.code, done.document["exit_code"]) == (2, 2)
    assert done.document["verb"] == arguments[0]
    assert error["field"] == field
    if field != "command line":
        assert error["value"] == value
    assert words in error["message"]
    assert error["remedy"]
    assert error["kind"] in ("usage", "bad_input")
    assert done.err == ""
    assert launched == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["run", TINY, "--sharding", "colum_wise"], "Did you mean column_wise?"),
        (["run", TINY, "--implementation", "basline_1d"], "Did you mean baseline_1d?"),
        (["run", TINY, "--optimizer", "rowise_adagrad"], "Did you mean rowwise_adagrad?"),
        (["run", TINY, "--placement", "random"], "Change it"),
        (["run", TINY, "--steps", "2"], "or a smaller --warmup-steps"),
        (["compare", "a", "b", "c"], "A,B C,D"),
    ],
)
def test_remedies(arguments, remedy, cli):
    assert remedy in cli(*arguments).err.partition("Remedy: ")[2]


@pytest.mark.parametrize("verb", ["compare", "reproduce"])
def test_a_long_command_line_is_not_told_in_full(verb, cli):
    done = cli(verb, *(f"runs/smoke/{'0' * 20}/{run}" for run in range(99)))
    assert max(map(len, done.err.splitlines())) < 300
    assert "runs/smoke" in done.err


def test_runs_that_cannot_be_written(cli, launched, tmp_path):
    Path("runs").write_text("a file")
    done = cli("run", TINY, "--json")
    assert done.code == 2
    assert done.document["error"]["field"] == "runs"
    assert done.document["error"]["kind"] == "environment"
    assert launched == []


def test_a_defect_is_one_line_and_exit_code_3_with_a_traceback_on_request(cli, monkeypatch):
    def broken(name: str, location: str | None) -> None:
        raise RuntimeError("a bolt is loose")

    monkeypatch.setattr("suite.cli.run.load_workload", broken)
    done = cli("run", TINY)
    assert done.code == 3
    assert "RuntimeError: a bolt is loose" in done.err
    assert "Traceback" not in done.err
    done = cli("run", TINY, "--debug", "--json")
    assert done.document["error"]["kind"] == "internal"
    assert "Traceback" in done.err
    assert json.loads(done.out)["exit_code"] == 3
