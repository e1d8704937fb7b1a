"""``ci/gate-here box``: scaling by wall clock where the cores are too few for it, on a box of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from suite.gate.plan import load_plan
from tests.helpers.box import ROOT, skip_without_box

#: ``ci/box.toml``, with a launch less and a workload that is built at once.
PLAN = """
schema_version = 1
[scaling]
workload = "smoke"
launches = 4
reference = 2
options = ["--launcher", "slurm", "--ranks-per-host", "2", "--placement", "contiguous"]
[[scaling.thresholds]]
scaling = "weak"
world_size = 4
efficiency = 0.01
[[scaling.thresholds]]
scaling = "weak"
world_size = 4
replica_groups = 2
of_1d = 0.01
"""


def test_the_plan_of_the_box_is_one():
    scaling = load_plan(ROOT / "ci/box.toml").scaling
    assert scaling is not None
    assert {threshold.world_size for threshold in scaling.thresholds} == {4}


@pytest.mark.slow
def test_scaling_is_gated_on_a_box(tmp_path: Path) -> None:
    skip_without_box()
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    done = subprocess.run(
        [ROOT / "ci/gate-here", "box", "--base", "HEAD", "--head", "HEAD", "--runs", tmp_path, "--json"],
        env=os.environ | {"PLAN": str(plan)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    # Measured, not passed over: nothing did not run.
    assert [(row["configuration"], row["name"], row["verdict"]) for row in document["metrics"]] == [
        ("weak T=4 M=1", "efficiency", "equivalent"),
        ("weak T=4 M=2", "of_1d", "equivalent"),
    ]
    assert all(row["after"] > row["low"] > 0.01 for row in document["metrics"])
    assert document["nodes"] == "h[1-2]"
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert "sparse2d-gate-" not in left
