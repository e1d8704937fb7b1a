"""Faults planted on scratch branches of this project, gated by real runs against its last commit.

Slow: a minute or more each. What is uncommitted in the working tree is not in them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from suite.gate.regression import NOISY as NOISY_METRICS
from tests.helpers.small_repository import git

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SHARDED, TRAIN_STEP = "suite/implementations/sharded.py", "reference_impl/train_step.py"
TWO_D = """
[[configurations]]
name = "2D"
workload = "smoke"
world_size = 2
replica_groups = 2
options = ["--steps", "12", "--optimizer", "momentum_scaled_rowwise_adagrad", "--profile-steps", "0"]
"""
ONE_D = """
[[configurations]]
name = "1D"
workload = "smoke"
world_size = 2
implementation = "reference_2d"
options = ["--steps", "12"]
"""
LOOKUP = """
[[configurations]]
name = "1D"
workload = "dlrm_small"
world_size = 2
implementation = "baseline_1d"
options = ["--steps", "30"]
"""
#: Every lookup takes so many times longer than it does. What smaller ones look like is in docs/gates.md.
SLOWER = """        self.model = sharded.module

        def slowed(forward):
            def wrapped(*given, **named):
                begin = time.perf_counter()
                found = forward(*given, **named)
                end = time.perf_counter()
                while time.perf_counter() - end < {share} * (end - begin):
                    pass
                return found

            return wrapped

        import time

        for module in self.model.modules():
            for lookup in getattr(module, "_lookups", ()):
                lookup.forward = slowed(lookup.forward)
"""
#: What is deterministic shows in one launch.
EXACT = "schema_version = 1\n{configurations}\n[regression]\nlaunches = 1\n"
NOISY = "schema_version = 1\n{configurations}\n[regression]\nlaunches = 3\nfresh_launches = 5\n"
QUALITY = {"auc", "normalized_entropy", "log_loss"}


@dataclass(frozen=True)
class Fault:
    """An edit of one file, and the metrics of which at least one must fail by it."""

    file: str
    old: str
    new: str
    metrics: set[str]
    verdict: str = "worse"
    configurations: str = TWO_D
    noisy: bool = False


FAULTS = {
    "one extra all-to-all": Fault(
        TRAIN_STEP,
        "    backward(loss)\n",
        "    backward(loss)\n    extra = torch.zeros(64)\n"
        "    torch.distributed.all_to_all_single(torch.empty_like(extra), extra)\n",
        {"calls"},
    ),
    "a lookup that takes six times as long": Fault(
        SHARDED,
        "        self.model = sharded.module\n",
        SLOWER.format(share=5),
        {"components.lookup.exposed_ms"},
        configurations=LOOKUP,
        noisy=True,
    ),
    "64 MiB more memory": Fault(
        SHARDED,
        "        self._run = run\n",
        "        self._run = run\n        self._more = torch.ones(16 << 20)\n",
        {"memory.process"},
        noisy=True,
    ),
    "learning rate halved": Fault(
        SHARDED,
        "(spec.name, spec.learning_rate, spec.eps",
        "(spec.name, spec.learning_rate / 2, spec.eps",
        QUALITY,
    ),
    "momentum scaling dropped": Fault(
        "reference_impl/optimizer.py",
        'math.sqrt(self.scale) if self.name == "momentum_scaled_rowwise_adagrad" else 1.0',
        "math.sqrt(1.0)",
        QUALITY,
    ),
    "replicas not synced": Fault(
        "reference_impl/sync/schedule.py",
        "if self._steps_since == self._interval:",
        "if self._steps_since < 0:",
        QUALITY,
    ),
    "evaluation on the training split": Fault(
        "suite/batches.py",
        "self._source.evaluation(start, stop)",
        "self._source.train(start, stop)",
        QUALITY,
        "did_not_run",
    ),
    "a run that no longer starts": Fault(
        "suite/worker.py", "import faulthandler\n", "import nowhere\n", {"launches_failed"}, "did_not_run"
    ),
    "a crash in one configuration": Fault(
        "suite/implementations/reference_2d.py",
        "        groups = make_groups(",
        "        if run.layout.replica_groups > 1:\n"
        '            raise ValueError("planted")\n'
        "        groups = make_groups(",
        {"launches_failed"},
        "did_not_run",
        ONE_D + TWO_D,
    ),
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("clone") / "repository"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    git(folder, "checkout", "--quiet", "-B", "main")
    return folder


def branch(clone: Path, name: str, fault: Fault) -> None:
    git(clone, "checkout", "--quiet", "-B", name, "main")
    file = clone / fault.file
    text = file.read_text()
    assert text.count(fault.old) == 1, f"{fault.file} has changed: {fault.old}"
    text = text.replace(fault.old, fault.new)
    file.write_text(text)
    git(clone, "commit", "--quiet", "--all", "--message", name)
    git(clone, "checkout", "--quiet", "main")


def plan_of(configurations: str, metrics: set[str], noisy: bool) -> str:
    """A plan in which no noisy metric but these costs a second look: machines that run tests are busy."""
    if not noisy:
        return EXACT.format(configurations=configurations)
    others = [f'"{metric.name}" = 9.0' for metric in NOISY_METRICS if metric.name not in metrics]
    return "\n".join([NOISY.format(configurations=configurations), "[regression.margins]", *others])


def gate(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "suite.cli.main", "gate", *arguments, "--runs", str(folder), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_does_not_pass(clone, tmp_path, name):
    fault = FAULTS[name]
    head = name.replace(" ", "-")
    branch(clone, head, fault)
    (plan := tmp_path / "plan.toml").write_text(plan_of(fault.configurations, fault.metrics, fault.noisy))
    code, found = gate(tmp_path, "--plan", str(plan), "--repo", str(clone), "--head", head)
    failed = [row for row in found["metrics"] if row["status"] == "fail"]
    assert code == 1, found["reason"]
    assert {row["name"] for row in failed} & fault.metrics, failed
    assert fault.verdict in {row["verdict"] for row in failed if row["name"] in fault.metrics}, failed
    if name == "a crash in one configuration":
        assert {row["configuration"] for row in failed} == {"2D"}
        assert "planted" in failed[0]["reason"]


THEIRS = '''
"""Somebody else's 2D."""

import time

from suite.implementations.reference_2d import Reference2D


class Theirs(Reference2D):
    def train_step(self, batch):
        time.sleep({sleep})
        return super().train_step(batch)
'''


def test_a_foreign_repository_is_gated_end_to_end(tmp_path):
    repo = tmp_path / "theirs"
    (repo / "their").mkdir(parents=True)
    (repo / "their" / "__init__.py").touch()
    git(repo, "init", "--quiet", "--initial-branch", "main")
    for message, sleep in (("first", 0.0), ("slower", 0.03)):
        (repo / "their" / "two_d.py").write_text(THEIRS.format(sleep=sleep))
        git(repo, "add", ".")
        git(repo, "commit", "--quiet", "--message", message)
    (plan := tmp_path / "plan.toml").write_text(plan_of(TWO_D, {"step_ms"}, noisy=True))
    code, found = gate(
        tmp_path / "runs",
        *("--plan", str(plan), "--repo", str(repo), "--base", "main~1"),
        *("--setup", "touch set_up", "--implementation", "their.two_d:Theirs"),
    )
    worse = {row["name"] for row in found["metrics"] if row["verdict"] == "worse"}
    assert code == 1
    assert "step_ms" in worse
    assert not {"bytes", "calls", "auc"} & worse
    note = found["parts"]["regression"]["notes"]
    assert any("code.their.two_d" in line for line in note), note
