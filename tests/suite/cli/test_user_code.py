"""Code of the user's own that exits or prints: one error, exit code 2, and stdout stays the suite's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.suite.cli.conftest import TINY

CODE = """
import sys
from suite.data import DataSource
from suite.implementation import Implementation
from tests.helpers import records, toy_data

print("noise")

def workload():
    print("noise")
    sys.exit(0)

def generates(workload, seed):
    print("noise")
    sys.exit(0)
    yield

def generates_no_more(workload, seed):
    print("noise")
    raise GeneratorExit

class Source(toy_data.ToySource):
    @classmethod
    def check(cls, workload):
        print("noise")
        sys.exit(0)

class Chosen(records.Anything):
    @classmethod
    def check(cls, run):
        print("noise")
        sys.exit(0)

Chosen.__abstractmethods__ = frozenset()

class Unfinished(Implementation):
    def train_step(self, batch): ...

def _of(source):
    found = records.tiny()
    data = found.data.model_copy(update={"source": f"their_code:{source}"})
    return found.model_copy(update={"data": data})

def with_source(): return _of("Source")
def with_generator(): return _of("generates")
def with_generator_exit(): return _of("generates_no_more")
"""


@pytest.fixture
def their_code(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two modules in the working folder, imported anew."""
    Path("their_code.py").write_text(CODE)
    Path("their_exit.py").write_text("import sys\nprint('noise')\nsys.exit(0)\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("their_code", "their_exit"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "field", "words"),
    [
        (["their_exit:workload"], "workload", "does not import: SystemExit: 0"),
        (["their_code:workload"], "workload", "it raised SystemExit: 0"),
        (["their_code:with_source"], "data.source", "it raised SystemExit: 0"),
        (["their_code:with_generator"], "data.source", "it raised SystemExit: 0"),
        (["their_code:with_generator_exit"], "data.source", "it raised GeneratorExit"),
        ([TINY, "--implementation", "their_exit:Mine"], "implementation", "SystemExit: 0"),
        ([TINY, "--implementation", "their_code:Chosen"], "implementation", "it raised SystemExit: 0"),
        ([TINY, "--implementation", "their_code:Unfinished"], "implementation", "__init__, component_ranges"),
    ],
)
def test_it_cannot_end_the_suite(arguments, field, words, cli, their_code, launched):
    done = cli("run", *arguments, "--json")
    error = done.document["error"]
    assert (done.code, error["field"]) == (2, field)
    assert words in error["message"]
    assert "noise" in done.err
    assert launched == []
    sys.modules.pop("their_code", None)
    sys.modules.pop("their_exit", None)
    assert words.split(":")[0] in cli("run", *arguments).err


def test_an_exit_anywhere_else_is_a_defect(cli, monkeypatch):
    monkeypatch.setattr("suite.cli.run.load_workload", lambda name, location: sys.exit(0))
    done = cli("run", TINY, "--json")
    assert (done.code, done.document["error"]["kind"]) == (3, "internal")
