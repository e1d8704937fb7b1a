"""Streams that cannot be written, and Ctrl-C while an error is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from suite import store
from suite.cli import main
from suite.session import Interrupted
from tests.helpers.records import make_environment, make_run
from tests.suite.cli.conftest import FAKES, TINY

COMMAND = f'"{sys.executable}" -m suite.cli.main'
# A run on the launcher that launches nothing.
FAKE_RUN = f"""
import sys
from suite import session
from suite.cli.main import execute
from tests.helpers.records import FakeLauncher, succeed
session.LAUNCHERS["local"] = "{FAKES}:FakeLauncher"
FakeLauncher.script = succeed
arguments = ["run", "{TINY}", "--implementation", "{FAKES}:Anything", "--runs", sys.argv[1]]
sys.exit(execute(arguments + sys.argv[2:]))
"""


def shell(line: str, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line, shell=True, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("options", ["", "--json"])
@pytest.mark.parametrize(("to", "words"), [(">/dev/full", "No space left"), (">&-", "Bad file descriptor")])
@pytest.mark.parametrize("verb", ["workloads", "workloads show nothing"])
def test_a_result_that_cannot_be_written(verb, options, to, words):
    done = shell(f"{COMMAND} {verb} {options} {to}")
    if verb != "workloads" and not options:  # its error goes to stderr
        assert done.returncode == 2
        return
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert words in line


@pytest.mark.parametrize("where", ["closed", "full", "no reader"])
def test_progress_that_cannot_be_written_does_not_end_the_run(where, tmp_path):
    read, write = os.pipe()
    os.close(read)
    program = tmp_path / "program.py"
    program.write_text(FAKE_RUN)
    runs = tmp_path / "runs"
    to = {"closed": "2>&-", "full": "2>/dev/full", "no reader": ""}[where]
    done = shell(f'PYTHONPATH="{Path.cwd()}" "{sys.executable}" "{program}" "{runs}" {to}', stderr=write)
    os.close(write)
    assert done.returncode == 0
    (record,) = runs.glob("*/*/*/record.json")
    assert store.read(record).status == "complete"
    assert not record.parent.name.startswith(".")


def test_a_second_control_c_does_not_cut_off_the_report(cli, monkeypatch, tmp_path):
    run = make_run()
    folder = store.open_run(tmp_path, run, make_environment(flags=("busy",)))
    record, path = folder.finish("failed", None)

    def interrupted(name: str, location: str | None) -> None:
        raise Interrupted(record, path)

    def impatient(*given: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        return located(*given)

    located = main.located
    monkeypatch.setattr("suite.cli.run.load_workload", interrupted)
    monkeypatch.setattr(main, "located", impatient)
    done = cli("run", TINY, "--json")
    assert done.code == done.document["exit_code"] == 130
    assert done.document["environment"]["flags"] == ["busy"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
