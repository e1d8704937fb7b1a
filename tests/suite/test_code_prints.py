from __future__ import annotations

import sys
from pathlib import Path

import pytest

from suite.code_prints import code_prints
from suite.spec import RunSpec
from tests.helpers.records import make_run, tiny


def files(folder: Path, **sources: str) -> None:
    for name, source in sources.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


def run(implementation: str = "reference_2d", factory: str | None = None, source: str = "a:b") -> RunSpec:
    workload = tiny().model_dump(mode="json")
    workload["model"]["factory"] = factory
    workload["data"]["source"] = source
    return make_run(workload=workload, implementation=implementation)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that modules are found in, and nothing of it imported."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("theirs", "theirs.model"):  # a parent package is imported on the way to its module
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_every_module_that_a_run_names(folder):
    files(folder, their_model="", their_data="", their_loop="", unnamed="")
    found = code_prints(run("their_loop:Loop", "their_model:make", "their_data:Clicks"))
    assert list(found) == ["their_data", "their_loop", "their_model"]
    assert all(len(digest) == 16 for digest in found.values())


def test_an_edit_changes_the_digest_of_its_module_alone(folder):
    files(folder, their_model="width = 8", their_data="")
    named = run(factory="their_model:make", source="their_data:clicks")
    before = code_prints(named)
    files(folder, their_model="width = 9")
    after = code_prints(named)
    assert before["their_model"] != after["their_model"]
    assert before["their_data"] == after["their_data"]


@pytest.mark.parametrize(
    "statement",
    ["import their_layers", "from their_layers import WIDTH", "def make():\n    import their_layers"],
)
def test_what_lies_beside_a_module_and_is_imported_by_it_counts(statement, folder):
    files(folder, their_model=statement, their_layers="import their_model\nWIDTH = 8")
    assert set(code_prints(run(factory="their_model:make"))) == {"their_model", "their_layers"}


@pytest.mark.parametrize(
    "statement", ["from . import layers", "from .layers import x", "import theirs.layers"]
)
def test_a_package(statement, folder):
    files(folder / "theirs", model=f"import numpy\nimport suite.spec\n{statement}", layers="x = 1", unused="")
    assert set(code_prints(run(factory="theirs.model:make"))) == {"theirs.model", "theirs.layers"}


def test_an_installed_package_counts_alone(folder, monkeypatch):
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"purelib": str(folder)})
    files(folder / "theirs", __init__="import another", model="import theirs\nimport another")
    files(folder, another="")
    assert set(code_prints(run(factory="theirs.model:make"))) == {"theirs", "theirs.model"}


def test_the_suites_own_modules_do_not_count():
    assert code_prints(run(source="workloads.data.synthetic:SyntheticClicks")) == {}


@pytest.mark.parametrize("reference", ["absent:x", "absent.deep:x", "sys:path", "broken_:x"])
def test_what_cannot_be_found_or_read_is_left_out(reference, folder):
    files(folder, broken_="def (")
    assert code_prints(run(factory=reference)) == {}
    assert "broken_" not in sys.modules
