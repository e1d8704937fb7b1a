from __future__ import annotations

import pytest

from suite.catalog import each_workload
from suite.cli import workloads
from suite.errors import ConfigError


@pytest.fixture
def one_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workload whose file is wrong, before those of the tree."""
    error = ConfigError("name", None, "in specs.bad:bad: Field required.", "Add it.")
    monkeypatch.setattr(workloads, "each_workload", lambda: iter([("bad", error), *each_workload()]))


def test_one_whose_file_is_wrong_is_named_beside_the_others(one_wrong, cli):
    done = cli("workloads")
    assert done.code == 0
    assert "smoke" in done.out
    assert "bad" not in done.out
    assert "Left out: bad\nError: name: in specs.bad:bad: Field required.\nRemedy: Add it." in done.err


def test_in_json(one_wrong, cli):
    document = cli("workloads", "--json").document
    assert "smoke" in {line["name"] for line in document["workloads"]}
    assert document["errors"]["bad"]["message"] == "in specs.bad:bad: Field required."


def test_what_a_workload_does_not_have_is_a_dash(cli):
    out = cli("workloads", "show", "smoke").out
    assert "model.factory = -" in out
    assert "None" not in out


def test_none_is_wrong_here(cli):
    done = cli("workloads", "--json")
    assert (done.document["errors"], done.err) == ({}, "")
