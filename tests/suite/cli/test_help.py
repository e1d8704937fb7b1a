from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

VERBS = ("doctor", "workloads", "run", "sweep", "trace", "ablate", "compare", "parity", "reproduce")


@pytest.mark.parametrize("verb", [*VERBS, "workloads show"])
def test_help_has_examples_and_fits_80_columns(verb, cli):
    done = cli(*verb.split(), "--help")
    assert done.code == 0
    assert f"sparse2d {verb}" in done.out.partition("Examples:")[2]
    assert "--json" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_options_tell_what_they_are_when_left_out(cli):
    text = " ".join(cli("run", "--help").out.partition("Options:")[2].split())
    told = {
        option.split()[0]: option.partition("[default: ")[2].rstrip("]")
        for option in re.split(r" (?=--[a-z-]+ )", f" {text}")[1:]
    }
    assert told["--data"] == ""
    assert {told[f"--{name}"] for name in ("steps", "sharding", "dense-optimizer", "eps")} == {
        "the workload's"
    }
    assert {
        name: told[f"--{name}"] for name in ("seed", "device", "scaling", "placement", "stall-timeout")
    } == {
        "seed": "0",
        "device": "cpu",
        "scaling": "strong",
        "placement": "interleaved",
        "stall-timeout": "60.0",
    }


def test_help_lists_the_verbs(cli):
    done = cli("--help")
    assert done.code == 0
    assert all(f"  {verb} " in done.out for verb in VERBS)


def test_nothing_imports_torch_before_a_run_needs_it():
    script = (
        "import sys\n"
        "from suite.cli.main import execute\n"
        "execute(['workloads'])\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_goes_away_is_no_error(options):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "suite.cli.main", "workloads", *options],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
