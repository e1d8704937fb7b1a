"""More of asv on a copy of this checkout: failures beside successes, and a range of commits."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks.test_asv_run import Checkout
from tests.helpers.checkout import copy_checkout, git

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path) -> Checkout:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return Checkout(copy_checkout(tmp_path / "project"), tmp_path / "home")


def test_where_one_configuration_fails_the_others_go_on(checkout):
    # One rank does not make a host of two.
    done = checkout.python(
        "benchmarks.asv_run", "--bench", "strong_scaling", SPARSE2D_ASV_OPTIONS="--ranks-per-host 2"
    )
    assert done.returncode == 3
    assert "Failed: smoke, strong scaling, T=1, 1D baseline_1d: bad_input" in done.stderr
    rows = [line.split()[:2] for line in done.stdout.splitlines() if line.strip().startswith(("1D", "2D"))]
    assert rows == [["1D", "T=2"], ["2D", "T=2"]]
    results = checkout.results()
    one_d_1, _, one_d_2, two_d_2 = results["strong_scaling.smoke.track_step_ms"]
    assert one_d_1 is None
    assert one_d_2 > 0
    assert two_d_2 > 0
    # An efficiency needs the one rank that failed, the speed over 1D does not.
    assert results["strong_scaling.smoke.track_time_over_ideal"] is None
    assert results["strong_scaling.smoke.track_step_time_over_1d"][2:] == [1.0, two_d_2 / one_d_2]
    assert "efficiency" not in checkout.records()


def test_uncommitted_changes_are_flagged(checkout):
    (checkout.root / "README.md").write_text("Something else.")
    done = checkout.python("benchmarks.asv_run", "--bench", "conditions")
    assert done.returncode == 0
    assert "uncommitted changes" in done.stderr
    assert "dirty_tree" in done.stdout
    flags = checkout.results()["conditions.smoke.track_flag"]
    assert flags[0] == 1  # T = 1, 1D, dirty_tree
    assert all(found["dirty"] for found in checkout.records().values())


def test_a_range_of_commits(checkout):
    for number in range(2):
        (checkout.root / "note.txt").write_text(str(number))
        git(checkout.root, "add", "--all")
        git(checkout.root, "commit", "--quiet", "--message", f"Commit {number}")
    assert checkout.python("asv", "machine", "--yes").returncode == 0
    done = checkout.python(
        "asv", "run", "-E", "virtualenv", "--show-stderr", "--bench", "communication", "HEAD~2..HEAD",
        hang_s=1500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    for name in ("HEAD", "HEAD~1"):
        commit = git(checkout.root, "rev-parse", name)
        (path,) = checkout.root.glob(f".asv/results/*/{commit[:8]}-virtualenv*.json")
        assert json.loads(path.read_text())["commit_hash"] == commit
        kept = json.loads((checkout.root / f".asv/records/{commit}.json").read_text())["configurations"]
        assert len(kept) == 3
        record = json.loads((checkout.root / next(iter(kept.values()))["record"]).read_text())
        # Not ours, but the one that asv checked out.
        assert record["environment"]["git_commit"] == commit
    assert not list(checkout.root.glob(f".asv/results/*/{git(checkout.root, 'rev-parse', 'HEAD~2')[:8]}*"))
    compared = checkout.python("asv", "compare", "HEAD~1", "HEAD")
    assert compared.returncode == 0
    assert "communication.smoke.track_wire_bytes(2, 2D reference_2d M=2)" in compared.stdout
