from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from suite.selftest.parts import Part


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    """What the parts come to; they are not run."""
    found = [Part(name="one", status="ok", message="right.", seconds=1.0)]
    monkeypatch.setattr("suite.cli.selftest.parts", lambda device: [(p.name, lambda p=p: p) for p in found])
    monkeypatch.setattr("suite.cli.selftest.examine", lambda runs: [])
    monkeypatch.setattr("suite.cli.selftest.visible_gpus", lambda: 0)
    return found


def test_one_file_to_share(cli, parts):
    done = cli("selftest", "--file", "mine.json", "--json")
    assert done.code == 0
    shared = json.loads(Path("mine.json").read_text())
    assert shared["parts"] == done.document["parts"] == [parts[0].model_dump()]
    assert shared["environment"]["python"]
    assert shared["exit_code"] == 0


def test_a_disk_that_is_full_costs_no_finding(cli, parts, monkeypatch):
    def full(path, text):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("suite.cli.selftest.write_whole", full)
    done = cli("selftest", "--file", "mine.json")
    assert done.code == 2
    assert "selftest on cpu: fine" in done.err
    assert "No space left on device" in done.err


def test_a_part_that_fails(cli, parts):
    parts.append(Part(name="two", status="fail", message="wrong by 7.", seconds=1.0))
    done = cli("selftest")
    assert done.code == 3
    assert "wrong by 7." in done.out
    assert "selftest on cpu: failed" in done.out


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--device", "tpu"], "device"),
        (["--device", "cuda"], "device"),
        (["--file", "no/such/folder/file"], "file"),
        (["--check", "mine"], "implementation"),
        (["--check", "baseline_1d", "--replica-groups", "3"], "layout.replica_groups"),
    ],
)
def test_bad_input(arguments, field, cli, parts):
    done = cli("selftest", *arguments, "--json")
    assert (done.code, done.document["error"]["field"]) == (2, field)


@pytest.mark.slow
def test_all_of_it(tmp_path):
    file = tmp_path / "selftest.json"
    command = [sys.executable, "-m", "suite.cli.main", "selftest", "--file", str(file), "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {part["status"] for part in json.loads(file.read_text())["parts"]} == {"ok"}
