"""A git repository whose commits are programs to be gated: each answers ``sparse2d run`` with a ready record.

Its ``suite/cli/main.py`` stands for this project's own, so that a gate runs it in each side's checkout. It
starts in a tenth of a second, and what it measures is what the commit says.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.helpers.records import make_launch, make_profile, make_record, with_profiles

PROGRAM = """
import json, os, pathlib, secrets, sys, time
here = pathlib.Path(__file__).resolve().parents[2]
told = json.loads((here / "told.json").read_text())
options = dict(zip(sys.argv, sys.argv[1:]))
print(*sys.argv[1:], file=sys.stderr)
if told.get("crash"):
    sys.exit(told["crash"])
if told.get("refuses"):
    error = {"kind": "bad_input", "field": "workload", "message": "there is none.", "remedy": "Use another."}
    print(json.dumps({"error": error}))
    sys.exit(2)
if told.get("hangs"):
    time.sleep(600)
if sys.argv[1] == "parity":
    arm = {"mean": 0.75, "per_seed": [0.75 + told["auc"]] * 2}
    check = {"margin": 0.001, "difference": {"mean": 0.0, "low": 0.0, "high": 0.0}, "reason": "Told."}
    checks = [check | {"metric": m, "verdict": told["parity"]} for m in ("auc", "normalized_entropy")]
    arms = {name: {c["metric"]: arm for c in checks} for name in ("baseline", "candidate")}
    print(json.dumps({"metric": "auc", "checks": checks, "arms": arms, "seeds": [0, 1]}))
    sys.exit(told["parity"] != "equivalent")
if options["--replica-groups"] in told.get("fails_at", []):
    print(json.dumps({"error": {"kind": "rank_raised", "rank": 1, "message": "ValueError: told to"}}))
    sys.exit(3)
folder = pathlib.Path(options["--runs"]) / secrets.token_hex(4)
folder.mkdir(parents=True)
noise = len(list(folder.parent.iterdir())) % 5 / 1000
record = json.loads((here / "record.json").read_text())
record["run_id"] = folder.name
record["environment"]["versions"] |= told.get("versions", {})
record["run"]["seed"] = int(options["--seed"])
for rank in record["launches"][0]["ranks"]:
    rank["step_ms"] = [ms * told["slower"] * (1 + noise) for ms in rank["step_ms"]]
    rank["memory"]["process"] += told["more_memory"]
    rank["profile"]["step_ms"] = [ms * told["slower"] for ms in rank["profile"]["step_ms"]]
    for step in rank["collectives"]:
        step["collectives"][0]["calls"] += told["more_calls"]
(folder / "record.json").write_text(json.dumps(record))
print(json.dumps({"record": os.path.relpath(folder / "record.json")}))
"""
USUAL: dict[str, Any] = {
    "slower": 1.0,
    "more_memory": 0,
    "more_calls": 0,
    "parity": "equivalent",
    "auc": 0.0,
}


def git(repo: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", "-C", str(repo), *identity, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(repo: Path, branch: str, changes: dict[str, Any]) -> None:
    """A branch from ``main`` whose program does as it usually does but for the changes."""
    git(repo, "checkout", "--quiet", "-b", branch, "main")
    (repo / "told.json").write_text(json.dumps(USUAL | changes))
    git(repo, "commit", "--quiet", "--all", "--message", branch)
    git(repo, "checkout", "--quiet", "main")


def make_repository(folder: Path) -> Path:
    """A repository with one commit on ``main``."""
    program = folder / "suite" / "cli" / "main.py"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    for package in (folder / "suite", folder / "suite" / "cli"):
        (package / "__init__.py").touch()
    (folder / "told.json").write_text(json.dumps(USUAL))
    launch = with_profiles(make_launch(), [make_profile([10.0] * 3)] * 2)
    (folder / "record.json").write_text(make_record([launch]).model_dump_json())
    # Where a gate looks for expected values that it could tell how to renew.
    (folder / "ci").mkdir()
    for name in ("self.toml", "expected.json"):
        (folder / "ci" / name).touch()
    (folder / ".gitignore").write_text("__pycache__\n")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "main")
    return folder
