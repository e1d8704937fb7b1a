from __future__ import annotations

from pathlib import Path

import pytest

from suite.errors import ConfigError
from suite.gate.plan import GatePlan, load_plan
from suite.spec import validated

ROOT = Path(__file__).parents[3]
ONE = {"name": "one", "workload": "smoke"}


@pytest.mark.parametrize("path", sorted(ROOT.glob("ci/*.toml")), ids=lambda path: path.name)
def test_the_plans_of_the_repository_are_valid(path):
    assert load_plan(path).parts


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"configurations": [ONE], "regresion": {}}, "regresion"),
        ({"configurations": [ONE], "regression": {"launchs": 5}}, "regression.launchs"),
        ({"configurations": [ONE], "regression": {"launches": 0}}, "regression.launches"),
        ({"configurations": [ONE], "regression": {"margins": {"step": 0.1}}}, "margins.step"),
        ({"configurations": [ONE], "regression": {"margins": {"bytes": 0.1}}}, "margins.bytes"),
        ({"configurations": [ONE], "regression": {"policy": {"worse": "warn"}}}, "regression.policy.worse"),
        ({"configurations": [ONE], "expected": {"tolerances": {"step_ms": 1}}}, "tolerances.step_ms"),
        ({"configurations": [ONE, ONE], "regression": {}}, "configurations"),
        ({"regression": {}}, "configurations"),
        ({"parity": {"workload": "smoke", "world_size": 2}}, "replica_groups"),
        (
            {"configurations": [ONE | {"world_size": 2, "replica_groups": 3}]},
            "replica_groups",
        ),
        ({"scaling": {"workload": "smoke", "thresholds": []}}, "scaling.thresholds"),
        (
            {"scaling": {"workload": "smoke", "thresholds": [{"scaling": "weak", "world_size": 2}]}},
            "thresholds",
        ),
        ({"schema_version": 2}, "schema_version"),
    ],
)
def test_a_typo_is_named(content, field):
    with pytest.raises(ConfigError) as refused:
        validated(GatePlan, content)
    assert refused.value.report.field == field
    assert refused.value.report.remedy


@pytest.mark.parametrize("text", ["[regression", "\udcff"], ids=["toml", "encoding"])
def test_a_file_that_is_not_toml(tmp_path, text):
    file = tmp_path / "plan.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match="not TOML"):
        load_plan(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_plan(tmp_path / "none.toml")
