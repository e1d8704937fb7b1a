"""One configuration measured, with a program in the place of the command line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time

import pytest

from suite.environment import capture
from suite.errors import ConfigError
from suite.store import open_run
from tests.helpers.records import make_launch, make_run
from workloads.asv_benchmarks.support import measuring, records, sizes
from workloads.asv_benchmarks.support.measuring import ConfigurationFailed, Session, measured
from workloads.asv_benchmarks.support.sizes import ONE_D, Configuration

SMOKE = Configuration("smoke", "strong", 2, ONE_D)
COMMIT = "0123456789abcdef"
HEAD = f"#!{sys.executable}\nimport sys, time, json\n"
ERROR = {
    "kind": "rank_raised",
    "rank": 1,
    "message": "told to.",
    "remedy": "Do not.",
    "log": "runs/x/rank1.log",
}


@pytest.fixture
def program(tmp_path, monkeypatch):
    """``program(source)`` is run in the place of ``sparse2d``; what it was called with is in ``calls``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measuring, "ROOT", tmp_path)
    monkeypatch.setattr(measuring, "PROGRESS", tmp_path / "progress.log")
    monkeypatch.setattr(records, "FOLDER", tmp_path / "records")
    monkeypatch.setenv(sizes.SIZE_VARIABLE, "smoke")
    monkeypatch.delenv(sizes.OPTIONS_VARIABLE, raising=False)
    monkeypatch.setattr(sizes.Size, "beside", lambda _, one: [one])  # no sweep, unless a test wants one
    calls = tmp_path / "calls"
    calls.write_text("")

    def install(source: str):
        script = tmp_path / "program"
        script.write_text(f"{HEAD}open({str(calls)!r}, 'a').write(repr(sys.argv) + '\\n')\n{source}")
        script.chmod(0o755)
        monkeypatch.setattr(measuring.sys, "executable", str(script))
        return lambda: calls.read_text().splitlines()

    return install


@pytest.fixture
def record(tmp_path):
    """A record on disk, and a program that says it made it."""
    run = make_run()
    folder = open_run(tmp_path / "runs", run, capture(run))
    folder.save_launch(make_launch())
    _, path = folder.finish("complete", None)
    return f"print(json.dumps({{'record': {str(path / 'record.json')!r}, 'error': None}}))"


def session(name="first"):
    return Session(name, COMMIT, dirty=True)


def test_one_launch_feeds_all_metrics(program, record, tmp_path):
    calls = program(record)
    first = measured(session(), SMOKE)
    assert measured(session(), SMOKE) == first
    assert len(calls()) == 1
    assert first.metrics["samples_per_s"] == [800.0]
    assert first.metrics["auc"] == [0.75]
    assert first.dirty
    # The file beside asv's results leads from the configuration to its record.
    kept = json.loads(records.path_of(COMMIT).read_text())["configurations"][str(SMOKE)]
    assert (tmp_path / kept["record"]).is_file()
    assert (kept["implementation"], kept["world_size"], kept["replica_groups"]) == ("baseline_1d", 2, 1)


def test_another_call_of_asv_measures_again(program, record):
    calls = program(record)
    measured(session("first"), SMOKE)
    measured(session("second"), SMOKE)
    assert len(calls()) == 2


def test_weak_and_strong_scaling_share_what_is_the_same(program, record):
    calls = program(record)
    measured(session(), SMOKE)
    measured(session(), Configuration("smoke", "weak", 2, ONE_D))
    assert len(calls()) == 1


@pytest.fixture
def sweeping(program, monkeypatch):
    """As ``program``, where one sweep runs all three of smoke's configurations; and these three."""

    def install(source: str):
        calls = program(source)
        monkeypatch.setattr(sizes.Size, "beside", lambda _, one: three)
        return calls

    two_d = sizes.Layout("reference_2d", 2)
    three = [Configuration("smoke", "strong", *of) for of in ((1, ONE_D), (2, ONE_D), (2, two_d))]
    return install, three


def run(configuration, **changes):
    """What ``sweep --json`` says of one configuration."""
    layout = configuration.layout
    found = {"implementation": layout.implementation, "replica_groups": layout.replica_groups}
    return found | {"world_size": configuration.world_size, "record": None, "error": None} | changes


def test_a_sweep_serves_all_it_ran_and_one_of_it_may_fail(sweeping):
    install, (one, two, two_d) = sweeping
    document = {"runs": [run(one), run(two, error=ERROR), run(two_d)], "exit_code": 3}
    calls = install(f"print({json.dumps(document)!r}); sys.exit(3)")
    assert measured(session(), two_d).error is None
    assert measured(session(), one).error is None
    with pytest.raises(ConfigurationFailed, match="rank_raised on rank 1: told to"):
        measured(session(), two)
    (only,) = calls()
    assert (
        "'sweep', 'smoke', '--world-sizes', '1,2', '--replica-groups', '1,2', '--scaling', 'strong'" in only
    )


def test_of_a_sweep_that_is_refused_each_is_tried_alone(sweeping):
    install, together = sweeping
    refused = json.dumps({"error": ERROR | {"kind": "bad_input"}, "exit_code": 2})
    fine = json.dumps({"record": None, "error": None})
    calls = install(
        f"bad = 'sweep' in sys.argv or sys.argv[sys.argv.index('--world-size') + 1] == '1'\n"
        f"print({refused!r} if bad else {fine!r}); sys.exit(2 if bad else 0)"
    )
    found = {}
    for one in together:
        try:
            found[one] = measured(session(), one).error
        except ConfigurationFailed as error:
            found[one] = str(error)
    assert [error is None for error in found.values()] == [False, True, True]
    assert "bad_input" in found[together[0]]
    assert len(calls()) == 1 + 3


def test_options_of_the_user_come_last(program, record, monkeypatch):
    monkeypatch.setenv(sizes.OPTIONS_VARIABLE, "--stall-timeout 9 --runs 'my runs'")
    calls = program(record)
    measured(session(), SMOKE)
    assert calls()[0].endswith("'--stall-timeout', '9', '--runs', 'my runs', '--json']")


def test_a_host_has_no_more_ranks_than_are_run(program, record, monkeypatch):
    monkeypatch.setenv(sizes.OPTIONS_VARIABLE, "--ranks-per-host 2")
    calls = program(record)
    measured(session(), SMOKE)
    measured(session(), Configuration("smoke", "weak", 1, ONE_D))
    assert [call.rpartition("'--ranks-per-host', ")[2] for call in calls()] == [
        "'2', '--json']",
        "'1', '--json']",
    ]


def test_one_that_failed_says_why_and_is_not_run_again(program):
    calls = program(f"print(json.dumps({{'record': None, 'error': {ERROR!r}}})); sys.exit(3)")
    for _ in range(2):
        with pytest.raises(ConfigurationFailed) as caught:
            measured(session(), SMOKE)
        assert "smoke, strong scaling, T=2, 1D baseline_1d" in str(caught.value)
        assert "rank_raised on rank 1: told to. Do not. Log: runs/x/rank1.log" in str(caught.value)
    assert len(calls()) == 1
    assert records.read(COMMIT)[str(SMOKE)].error is not None


def test_others_go_on(program, record):
    program("sys.exit(9)")
    with pytest.raises(ConfigurationFailed, match="it ended with 9"):
        measured(session(), SMOKE)
    program(record)
    one = Configuration("smoke", "strong", 1, ONE_D)
    assert measured(session(), one).error is None
    assert set(records.read(COMMIT)) == {str(SMOKE), str(one)}


def test_one_that_takes_too_long_fails_with_the_reason(program, monkeypatch):
    limited = sizes.Size(("smoke",), {"strong": (2,), "weak": (2,)}, (ONE_D,), launches=1, limit_s=0.5)
    monkeypatch.setattr(sizes, "chosen", lambda: limited)
    program("time.sleep(600)")
    began = time.monotonic()
    with pytest.raises(ConfigurationFailed, match="longer than 0 s, the limit"):
        measured(session(), SMOKE)
    # A guard against waiting for its end; it takes half a second.
    assert time.monotonic() - began < measuring.GRACE_S


def test_where_the_benchmark_is_killed_the_run_is_interrupted(program, tmp_path):
    """As asv does when its own limit is over."""
    told = tmp_path / "told"
    program(
        f"open({str(told)!r}, 'w').write('began')\n"
        "try: time.sleep(60)\n"
        f"except KeyboardInterrupt: open({str(told)!r}, 'w').write('Ctrl-C')"
    )
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            measured(session(), SMOKE)
        os._exit(0)
    assert soon(lambda: told.exists() and told.read_text() == "began")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert soon(lambda: told.read_text() == "Ctrl-C")


def soon(condition) -> bool:
    """Whether it comes true; ten seconds are a guard against waiting for ever."""
    end = time.monotonic() + 10
    while time.monotonic() < end and not condition():
        time.sleep(0.02)
    return condition()


def test_a_workload_that_was_another_one_at_a_commit_is_not_kept_under_this_ones_version(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(measuring, "ROOT", tmp_path)
    results = tmp_path / ".asv" / "results"
    results.mkdir(parents=True)
    name = "quality.smoke.track_normalized_entropy"
    known = {name: {"name": name, "version": "aaaa"}, "version": 2}
    (results / "benchmarks.json").write_text(json.dumps(known))
    now = Session("first", COMMIT, False, measuring._versions())
    now.check_version("smoke", "aaaa")
    now.check_version("dlrm_small", "bbbb")
    with pytest.raises(ConfigurationFailed, match="another workload at commit 01234567"):
        now.check_version("smoke", "bbbb")


def test_without_a_git_checkout_there_is_nothing_to_keep_results_by(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "SUITE", tmp_path)
    with pytest.raises(ConfigError, match="no git checkout") as caught:
        measuring.open_session()
    assert "sparse2d sweep" in caught.value.report.remedy
