"""``sparse2d gate`` on a repository whose commits answer at once; real ones are in ``tests/suite/gate``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from xml.etree import ElementTree

import pytest

from suite.errors import ConfigError
from suite.gate import measuring
from tests.helpers.box import within
from tests.helpers.leftovers import MARK, marked
from tests.helpers.records import make_environment, make_launch, make_record
from tests.helpers.small_repository import commit, git, make_repository

PLAN = """
schema_version = 1
[[configurations]]
name = "1D"
workload = "smoke"
[[configurations]]
name = "2D"
workload = "smoke"
world_size = 2
replica_groups = 2
[regression]
launches = 5
fresh_launches = 5
"""
PARITY = """
schema_version = 1
[parity]
workload = "smoke"
seeds = 2
"""
SCALING = """
schema_version = 1
[scaling]
workload = "smoke"
policy.did_not_run = "warn"
[[scaling.thresholds]]
scaling = "strong"
world_size = 10000
efficiency = 0.5
"""
BRANCHES = {
    "same": {},
    "slower": {"slower": 1.3},
    "faster": {"slower": 0.5},
    "larger": {"more_memory": 64},
    "chatty": {"more_calls": 1},
    "terse": {"more_calls": -1},
    "broken": {"crash": 7},
    "refusing": {"refuses": True},
    "unlike_1d": {"parity": "inconclusive"},
    "unlike_base": {"auc": 0.1},
    "crashes_in_2d": {"fails_at": ["2"]},
    "upgraded": {"versions": {"torch": "99.0"}, "slower": 1.3},
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    repo = make_repository(tmp_path_factory.mktemp("repository"))
    for name, changes in BRANCHES.items():
        git(repo, "branch", "--quiet", name) if not changes else commit(repo, name, changes)
    return repo


@pytest.fixture
def plan(tmp_path) -> Path:
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    return file


@pytest.mark.parametrize(
    ("branch", "verdict", "code", "metrics"),
    [
        ("same", "equivalent", 0, set()),
        ("slower", "worse", 1, {"step_ms"}),
        ("larger", "worse", 1, {"memory.process"}),
        ("chatty", "worse", 1, {"calls"}),
        ("broken", "did_not_run", 1, {"launches_failed"}),
        ("refusing", "did_not_run", 1, {"launches_failed"}),
        ("crashes_in_2d", "did_not_run", 1, {"launches_failed"}),
    ],
)
def test_a_planted_fault_is_found_and_named(cli, repository, plan, branch, verdict, code, metrics):
    found = cli("gate", "--plan", str(plan), "--repo", str(repository), "--head", branch, "--json")
    document = found.document
    failed = [row for row in document["metrics"] if row["status"] == "fail"]
    assert (found.code, document["exit_code"]) == (code, code), found.err
    assert document["verdict"] == document["parts"]["regression"]["verdict"] == verdict
    assert {row["name"] for row in failed} == metrics
    assert {row["configuration"] for row in failed} <= ({"2D"} if branch == "crashes_in_2d" else {"1D", "2D"})
    assert document["commits"]["head"]["commit"] == git(repository, "rev-parse", branch)
    # Nothing is left of the worktrees.
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.slow
def test_an_upgrade_of_the_stack_is_gated_where_it_is_allowed(cli, repository, plan):
    gate = ("gate", "--plan", str(plan), "--repo", str(repository), "--head", "upgraded", "--json")
    refused = cli(*gate)
    assert (refused.code, refused.document["error"]["field"]) == (2, "stack")
    assert "99.0" in refused.document["error"]["message"]
    done = cli(*gate, "--allow-stack")
    assert (done.code, done.document["verdict"]) == (1, "worse")
    assert {row["name"] for row in done.document["metrics"] if row["verdict"] == "worse"} >= {"step_ms"}


def test_a_trace_that_cannot_be_taken_costs_no_verdict(cli, repository, plan, monkeypatch):
    measure = measuring.interleaved

    def refused_when_traced(base, head, configurations, *rest):
        if any("--trace" in configuration.options for configuration in configurations):
            raise ConfigError("trace", "slowest", "there is nothing to trace.", "Profile.")
        return measure(base, head, configurations, *rest)

    monkeypatch.setattr(measuring, "interleaved", refused_when_traced)
    done = cli("gate", "--plan", str(plan), "--repo", str(repository), "--head", "slower", "--json")
    assert (done.code, done.document["verdict"]) == (1, "worse")
    assert "no trace was taken: there is nothing to trace." in done.document["parts"]["regression"]["notes"]


def test_what_got_slower_is_traced_on_both_sides(cli, repository, plan):
    done = cli("gate", "--plan", str(plan), "--repo", str(repository), "--head", "slower", "--json")
    notes = done.document["parts"]["regression"]["notes"]
    for configuration in ("1D", "2D"):
        told = [note.removeprefix(f"{configuration}: ") for note in notes if note.startswith(configuration)]
        base, head, command = told
        assert (base[:20], head[:20]) == ("trace of base: base/", "trace of head: head/")
        folder = Path(done.document["folder"])
        sides = [folder / where.split(": ")[1].removesuffix("/trace") for where in (base, head)]
        assert command == f"the difference by component: sparse2d trace {sides[0]} {sides[1]}"


def test_a_report_takes_no_file_that_the_gate_reads(cli, repository, plan, tmp_path):
    expected = tmp_path / "expected.json"
    expected.write_text('{"schema_version": 1, "configurations": {}}')
    link = tmp_path / "comment.md"
    link.symlink_to(plan)
    before = {file: file.read_text() for file in (plan, expected)}
    usual = ("gate", "--plan", str(plan), "--repo", str(repository), "--json")
    for report in (("--markdown", plan), ("--junit", link), ("--expected", expected, "--markdown", expected)):
        refused = cli(*usual, *map(str, report))
        error = refused.document["error"]
        assert refused.code == 2
        assert "reads or writes that file" in error["message"]
    assert {file: file.read_text() for file in before} == before
    assert not Path("runs").exists()


def test_an_improvement_is_no_failure(cli, repository, plan):
    done = cli("gate", "--plan", str(plan), "--repo", str(repository), "--head", "faster", "--json")
    steps = [row for row in done.document["metrics"] if row["name"] == "step_ms"]
    assert done.code == 0
    assert "--renew" in done.document["renew"]
    assert {row["verdict"] for row in steps} == {"better"}


def test_an_improvement_is_claimed_by_a_command_where_there_are_expected_values(cli, repository, plan):
    gate = ("gate", "--plan", str(plan), "--repo", str(repository), "--head", "terse")
    renew = "sparse2d gate --plan ci/self.toml --expected ci/expected.json --renew"
    assert f"An improvement. Claim it by renewing the expected values: {renew}" in cli(*gate).out
    (repository / "ci/expected.json").rename(repository / ".git/expected.json")
    try:
        done = cli(*gate)
        assert done.code == 0
        assert "An improvement" not in done.out
    finally:
        (repository / ".git/expected.json").rename(repository / "ci/expected.json")


def test_all_reports_say_the_same(cli, repository, plan):
    options = ("--markdown", "comment.md", "--junit", "junit.xml", "--accept", "memory.process")
    done = cli("gate", "--plan", str(plan), "--repo", str(repository), "--head", "chatty", *options)
    assert done.code == 1
    assert "Verdict: worse, fail" in done.out
    assert "claim it: --accept calls" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines() if "│" in line or "─" in line)
    comment = Path("comment.md").read_text()
    assert comment.startswith("<!-- sparse2d-gate -->")
    assert "`calls` | 3 calls/step | 4 calls/step" in comment.replace("6 calls", "3 calls").replace(
        "7 c", "4 c"
    )
    assert "regression policy: worse fail, did_not_run fail" in comment
    counted = re.search(r"Failed\. (\d+) exact figures: (\d+) equivalent, 2 worse\. (\d+) noisy", comment)
    assert counted
    assert int(counted[1]) == int(counted[2]) + 2, "calls, in both configurations"
    assert counted[0] in done.out
    suites = ElementTree.parse("junit.xml").getroot()
    assert suites[0].attrib["failures"] == "2"
    assert {case.attrib["name"] for case in suites[0] if case.find("failure") is not None} == {"calls"}
    folder = next(Path("runs/gate").iterdir())
    assert (folder / "gate.md").read_text() == comment


def test_what_did_not_run_is_an_error_of_junit_and_no_failure(cli, repository, plan):
    cli("gate", "--plan", str(plan), "--repo", str(repository), "--head", "broken", "--junit", "junit.xml")
    suite = ElementTree.parse("junit.xml").getroot()[0]
    assert (suite.attrib["failures"], suite.attrib["errors"]) == ("0", "2")


def test_options_after_two_dashes_reach_every_run(cli, repository, plan):
    done = cli(
        *("gate", "--plan", str(plan), "--repo", str(repository), "--head", "same", "--json"),
        *("--", "--steps", "33"),
    )
    assert done.code == 0
    told = [log.read_text() for log in Path(done.document["folder"]).glob("logs/**/stderr")]
    assert len(told) == 2 * 2 * 5
    assert all("--steps 33" in words for words in told)


def test_the_set_up_runs_in_both_checkouts_and_may_bring_an_interpreter(cli, repository, plan):
    setup = "mkdir -p env && ln -s $(command -v python3) env/python"
    common = ("gate", "--plan", str(plan), "--repo", str(repository), "--head", "same", "--json")
    assert cli(*common, "--setup", setup, "--python", "env/python").code == 0
    refused = cli(*common, "--setup", "echo no room; exit 4")
    assert refused.code == 2
    assert "exit code 4 on the base side: no room" in refused.document["error"]["message"]
    refused = cli(*common, "--python", "env/python")
    assert (refused.code, refused.document["error"]["field"]) == (2, "python")


@pytest.mark.parametrize(
    ("branch", "failed"),
    [
        ("same", set()),
        ("unlike_1d", {"2D M=4 against 1D"}),
        ("broken", {"2D M=4 against 1D"}),
        # Both figures of an arm move alike here, and so one of them for the worse.
        ("unlike_base", {"1D, head against base", "2D, head against base"}),
    ],
)
def test_parity_of_head_against_1d_and_against_base(cli, repository, plan, branch, failed):
    plan.write_text(PARITY)
    done = cli("gate", "--plan", str(plan), "--repo", str(repository), "--head", branch, "--json")
    rows = done.document["metrics"]
    assert {row["configuration"] for row in rows if row["status"] == "fail"} == failed
    assert done.code == (1 if failed else 0)
    against_base = {row["verdict"] for row in rows if row["configuration"] == "2D, head against base"}
    if branch != "broken":
        assert against_base == ({"better", "worse"} if branch == "unlike_base" else {"equivalent"})


def test_parity_of_somebodys_implementation_needs_real_ranks(cli, repository, plan):
    plan.write_text(PARITY)
    common = ("gate", "--plan", str(plan), "--repo", str(repository), "--head", "same", "--json")
    refused = cli(*common, "--implementation", "their.module:Class")
    assert (refused.code, refused.document["error"]["field"]) == (2, "parity.world_size")
    plan.write_text(PARITY + "world_size = 2\nreplica_groups = 2\n")
    done = cli(*common, "--implementation", "their.module:Class")
    assert (done.code, done.document["verdict"]) == (0, "equivalent")


def test_scaling_past_the_cores_of_a_machine_is_no_pass(cli, repository, plan):
    plan.write_text(SCALING)
    done = cli("gate", "--plan", str(plan), "--repo", str(repository), "--head", "same", "--json")
    (row,) = done.document["metrics"]
    assert (row["verdict"], row["status"]) == ("did_not_run", "warn")
    assert "take turns" in row["reason"]
    # Nothing else was judged.
    assert (done.code, done.document["verdict"]) == (1, "did_not_run")


def test_what_both_sides_refuse_is_wrong_input(cli, repository, plan):
    sides = ("--base", "refusing", "--head", "refusing")
    refused = cli("gate", "--plan", str(plan), "--repo", str(repository), *sides, "--json")
    assert refused.code == 2
    assert refused.document["error"]["field"] == "workload"
    assert refused.document["error"]["remedy"] == "Use another."
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_uncommitted_changes_are_refused(cli, repository, plan):
    (repository / "told.json").write_text("{}")
    try:
        refused = cli("gate", "--plan", str(plan), "--repo", str(repository), "--json")
        assert refused.code == 2
        assert "told.json" in refused.document["error"]["message"]
        named = cli("gate", "--plan", str(plan), "--repo", str(repository), "--head", "same", "--json")
        assert named.code == 0
    finally:
        git(repository, "checkout", "--quiet", "told.json")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_gate_that_is_ended_leaves_no_checkout(repository, plan, tmp_path, sent):
    commit(repository, f"hangs_{sent.name}", {"hangs": True})
    command = [sys.executable, "-m", "suite.cli.main", "gate", "--plan", str(plan), "--repo", str(repository)]
    options = ["--head", f"hangs_{sent.name}", "--runs", str(tmp_path), "--json"]
    root = Path(__file__).parents[3]
    gate = subprocess.Popen([*command, *options], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert gate.stderr is not None
    while b"head" not in (line := gate.stderr.readline()):
        assert line, "it ended before head was run"
    gate.send_signal(sent)
    out, _ = gate.communicate(timeout=60)  # a guard against a hang
    assert gate.returncode == 130
    assert json.loads(out)["error"]["kind"] == "interrupted"
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_gate_against_expected_values_that_is_ended_leaves_no_run(repository, plan, tmp_path):
    (tmp_path / "expected.json").write_text('{"schema_version": 1, "configurations": {}}')
    commit(repository, "hangs_as_it_lies", {"hangs": True})
    git(repository, "checkout", "--quiet", "hangs_as_it_lies")
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "suite.cli.main", "gate", "--plan", str(plan), "--repo", str(repository)]
    options = ["--expected", str(tmp_path / "expected.json"), "--runs", str(tmp_path), "--json"]
    root = Path(__file__).parents[3]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    try:
        gate = subprocess.Popen([*command, *options], cwd=root, env=os.environ | {MARK: mark}, **pipes)
        assert within(60.0, lambda: len(marked(mark)) == 2), "the gate, and what it runs"
        gate.send_signal(signal.SIGTERM)
        out, _ = gate.communicate(timeout=60)  # a guard against a hang
    finally:
        git(repository, "checkout", "--quiet", "main")
    assert gate.returncode == 130
    assert json.loads(out)["error"]["kind"] == "interrupted"
    assert not marked(mark)


@pytest.mark.parametrize(
    ("arguments", "plan"), [([], "ci/quick.toml"), (["--expected", "nowhere.json"], "ci/self.toml")]
)
def test_expected_values_have_a_plan_of_their_own(cli, arguments, plan):
    error = cli("gate", *arguments, "--json").document["error"]
    assert (error["field"], error["value"]) == ("plan", plan)


def save(folder: Path, **changes) -> None:
    for number in range(5):
        file = folder / str(number) / "record.json"
        file.parent.mkdir(parents=True)
        launch = make_launch(number, [10 + number / 100] * 2)
        file.write_text(make_record([launch], run_id=f"{folder}-{number}", **changes).model_dump_json())


def test_saved_records_are_judged_without_running(cli, plan):
    save(Path("old"))
    save(Path("new"))
    done = cli("gate", "--plan", str(plan), "--base-runs", "old", "--head-runs", "new", "--json")
    assert done.code == 0, done.err
    assert done.document["verdict"] == "equivalent"
    assert {row["configuration"] for row in done.document["metrics"]} == {
        "tiny tests.helpers.records:Anything T=2"
    }


@pytest.mark.parametrize(
    ("arguments", "field", "says"),
    [
        (["--base", "nowhere"], "base", "no such commit"),
        (["--head", "nowhere"], "head", "no such commit"),
        (["--repo", "."], "repo", "no git checkout"),
        (["--repo", "nowhere"], "repo", "no such folder"),
        (["--plan", "nowhere.toml"], "plan", "cannot be read"),
        (["--plan", "typo.toml"], "regresion", "Extra inputs"),
        (["--plan", "option.toml"], "configurations.0.options", "No such option: --shardin"),
        (["--plan", "value.toml"], "parity.options", "--steps 'many': "),
        (["--plan", "placed.toml"], "configurations.0.options", "refuses layout.placement: "),
        (["--plan", "split.toml"], "parity.options", "'rowwise' is no sharding type"),
        (["--plan", "late.toml"], "parity.options", "refuses sync_optimizer_state: "),
        (["--plan", "weakly.toml"], "scaling.options", "refuses device: "),
        (["--plan", "helped.toml"], "scaling.options", "nothing is run"),
        (["--", "--stepz", "3"], "run_options", "No such option: --stepz"),
        (["--", "--launcher=slurm"], "run_options", "a job of its own"),
        (["--", "--world-size=1"], "run_options", "the gate sets this itself"),
        (["--", "--json"], "run_options", "the gate sets this itself"),
        (["--plan", "twice.toml"], "scaling.options", "the gate sets this itself"),
        (["--plan", "seeds.toml"], "parity.options", "the gate sets this itself"),
        (["--plan", "real.toml"], "parity.options", "a job of its own"),
        (["--parts", "scaling"], "parts", "no such section"),
        (["--parts", "speed"], "parts", "no such part"),
        (["--accept", "speed"], "accept", "no such metric"),
        (["--base-runs", "empty"], "head_runs", "only one side"),
        (["--base-runs", "empty", "--head-runs", "other"], "base_runs", "no baseline yet"),
        (["--base-runs", "saved", "--head-runs", "empty"], "head_runs", "no record.json"),
        (["--base-runs", "saved", "--head-runs", "saved"], "head_runs", "in base's folder, too"),
        (["--base-runs", "saved", "--head-runs", "broken"], "record", "not whole JSON"),
        (["--base-runs", "saved", "--head-runs", "stack"], "stack", "torch 2.13.0+cpu and 2.14"),
        (["--base-runs", "saved", "--head-runs", "machine"], "hardware", "the machines differ"),
        (["--expected", "nowhere.json"], "expected", "no baseline"),
        (["--expected", "typo.json"], "expected", "no deterministic metric 'byts'"),
        (["--renew"], "renew", "no file is named"),
        (["--expected", "shorter.json"], "expected", "needs a value of auc for each seed"),
        (["--markdown", "no/such/comment.md"], "markdown", "cannot be written"),
        (["--markdown", "a_pipe"], "markdown", "no file that can be replaced"),
        (["--markdown", "one", "--junit", "./one"], "junit", "reads or writes"),
        (["--base-runs", "saved", "--head-runs", "nowhere"], "head_runs", "no such folder"),
        (["--base-runs", "saved", "--head-runs", "saved", "--head", "main"], "head", "nothing is run"),
        (["--calibrate", "saved"], "calibrate", "one gate deals out up to 20"),
    ],
)
def test_wrong_input_ends_before_anything_is_launched(cli, repository, plan, arguments, field, says):
    save(Path("saved"))
    save(Path("stack"), environment=make_environment(versions={"torch": "2.14"}))
    save(Path("machine"), environment=make_environment(cpu_model="Another processor"))
    Path("empty").mkdir()
    os.mkfifo("a_pipe")
    (broken := Path("broken") / "record.json").parent.mkdir()
    broken.write_text('{"schema_version": 1')
    Path("typo.toml").write_text("schema_version = 1\n[regresion]\n")
    Path("option.toml").write_text(
        PLAN.replace('workload = "smoke"', 'workload = "smoke"\noptions = ["--shardin", "x"]', 1)
    )
    Path("value.toml").write_text(PARITY.replace("seeds = 2", 'seeds = 2\noptions = ["--steps", "many"]'))
    Path("placed.toml").write_text(
        PLAN.replace('workload = "smoke"', 'workload = "smoke"\noptions = ["--placement", "foo"]', 1)
    )
    split = 'world_size = 2\nreplica_groups = 2\noptions = ["--sharding", "rowwise"]'
    Path("split.toml").write_text(PARITY.replace("seeds = 2", f"seeds = 2\n{split}"))
    late = 'seeds = 2\noptions = ["--sync-optimizer-state", "late"]'
    Path("late.toml").write_text(PARITY.replace("seeds = 2", late))
    Path("weakly.toml").write_text(SCALING.replace("policy.", 'options = ["--device", "abacus"]\npolicy.'))
    Path("helped.toml").write_text(SCALING.replace("policy.", 'options = ["--help"]\npolicy.'))
    Path("twice.toml").write_text(SCALING.replace("policy.", 'options = ["--scaling", "weak"]\npolicy.'))
    Path("seeds.toml").write_text(PARITY.replace("seeds = 2", 'seeds = 2\noptions = ["--seeds", "9"]'))
    slurm = 'world_size = 2\nreplica_groups = 2\noptions = ["--launcher", "slurm"]'
    Path("real.toml").write_text(PARITY.replace("seeds = 2", f"seeds = 2\n{slurm}"))
    typo = {"schema_version": 1, "configurations": {"1D": {"spec_hash": "a", "metrics": {"byts": 1}}}}
    Path("typo.json").write_text(json.dumps(typo))
    shorter = {"schema_version": 1, "configurations": {}, "parity": {"seeds": [0], "arms": {}}}
    Path("shorter.json").write_text(json.dumps(shorter))
    options = {"--plan": str(plan), "--repo": str(repository)}
    given = dict(zip(arguments[::2], arguments[1::2], strict=False))
    usual = [word for name, value in options.items() if name not in given for word in (name, value)]
    refused = cli("gate", "--json", *usual, *arguments)
    error = refused.document["error"]
    assert refused.code == 2, refused.out
    assert error["field"] == field
    assert says in error["message"] + str(error["kind"])
    assert error["remedy"]
    assert not Path("runs").exists()


def test_expected_values_are_kept_compared_and_renewed(cli, repository, plan):
    common = ("gate", "--plan", str(plan), "--repo", str(repository), "--expected", "expected.json", "--json")
    assert cli(*common, "--renew").code == 0
    assert set(json.loads(Path("expected.json").read_text())["configurations"]) == {"1D", "2D"}
    assert cli(*common).code == 0
    for branch, metric, verdict in (
        ("chatty", "calls", "worse"),
        ("broken", "launches_failed", "did_not_run"),
    ):
        git(repository, "checkout", "--quiet", branch)
        try:
            found = cli(*common)
        finally:
            git(repository, "checkout", "--quiet", "main")
        assert found.code == 1
        assert found.document["verdict"] == verdict
        assert {row["name"] for row in found.document["metrics"] if row["status"] == "fail"} == {metric}
        assert "--renew" in found.document["renew"]


def test_quality_of_virtual_groups_is_expected_seed_by_seed(cli, repository, plan):
    plan.write_text(PLAN + PARITY.replace("schema_version = 1", ""))
    common = ("gate", "--plan", str(plan), "--repo", str(repository), "--expected", "expected.json", "--json")
    assert cli(*common, "--renew").code == 0
    assert cli(*common).code == 0
    content = json.loads(Path("expected.json").read_text())
    content["parity"]["arms"]["candidate"]["auc"][1] += 1e-6
    Path("expected.json").write_text(json.dumps(content))
    failed = [row for row in cli(*common).document["metrics"] if row["status"] == "fail"]
    assert [(row["configuration"], row["name"], row["verdict"]) for row in failed] == [
        ("candidate, expected", "auc", "worse")
    ]
    plan.write_text(plan.read_text() + "[expected.tolerances]\nauc = 1e-5\n")
    assert cli(*common).code == 0
    content["parity"]["seeds"] = [0, 1, 2]
    Path("expected.json").write_text(json.dumps(content))
    assert cli(*common).code == 2


def test_missing_rows_of_the_expected_values_fail(cli, repository, plan):
    common = ("gate", "--plan", str(plan), "--repo", str(repository), "--expected", "expected.json", "--json")
    cli(*common, "--renew")
    content = json.loads(Path("expected.json").read_text())
    del content["configurations"]["1D"]["metrics"]["calls"]
    content["configurations"]["gone"] = content["configurations"].pop("2D")
    Path("expected.json").write_text(json.dumps(content))
    found = cli(*common)
    failed = {
        (row["configuration"], row["name"]) for row in found.document["metrics"] if row["status"] == "fail"
    }
    assert found.code == 1
    assert failed == {("1D", "calls"), ("gone", "records"), ("2D", "records")}


def test_calibration_of_saved_launches(cli, plan):
    for number in range(24):
        file = Path("again") / str(number) / "record.json"
        file.parent.mkdir(parents=True)
        launch = make_launch(number, [10 + number % 7 / 10] * 2)
        file.write_text(make_record([launch], run_id=f"r{number}").model_dump_json())
    done = cli("gate", "--plan", str(plan), "--calibrate", "again")
    assert done.code == 0
    assert "[regression.margins]" in done.out
    assert '"step_ms" = ' in done.out
    assert "0.00% false alarms" in done.out
