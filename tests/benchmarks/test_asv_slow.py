"""More of asv on a copy of this checkout: failures beside successes, a range of commits, a cluster."""

from __future__ import annotations

import json
import sys

import pytest

from suite import store
from tests.benchmarks.test_asv_run import HANG_S, Checkout
from tests.helpers.box import box_that_is_up
from tests.helpers.checkout import copy_checkout, git

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path) -> Checkout:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return Checkout(copy_checkout(tmp_path / "project"), tmp_path / "home")


def test_where_one_configuration_fails_the_others_go_on(checkout):
    mine = "tests.helpers.wrong_implementation:Raising"
    done = checkout.python(
        "benchmarks.asv_run", "--bench", "strong_scaling", SPARSE2D_ASV_OPTIONS=f"--implementation {mine}"
    )
    assert done.returncode == 3
    assert f"Failed: smoke, strong scaling, T=2, 2D {mine} M=2: rank_raised on rank" in done.stderr
    assert "the second step is too much" in done.stderr
    rows = [line.split()[:3] for line in done.stdout.splitlines() if line.strip().startswith(("1D", "2D"))]
    assert [row[:2] for row in rows] == [["1D", "T=1"], ["1D", "T=2"], ["2D", "T=2"]]
    assert "failed" in done.stdout
    results = checkout.results()
    # T = 1, 2 times 1D, 2D.
    one_d_1, _, one_d_2, two_d_2 = results["strong_scaling.smoke.track_step_ms"]
    assert one_d_1 > 0
    assert one_d_2 > 0
    assert two_d_2 is None
    assert results["strong_scaling.smoke.track_step_time_over_1d"][2:] == [1.0, None]
    kept = checkout.records()[f"smoke, strong scaling, T=2, 2D {mine} M=2"]
    assert json.loads((checkout.root / kept["record"]).read_text())["status"] == "failed"


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
    environment = f"virtualenv:{sys.version_info.major}.{sys.version_info.minor}"
    done = checkout.python(
        "asv", "run", "-E", environment, "--show-stderr", "--bench", "communication", "HEAD~2..HEAD",
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


def test_on_a_cluster(checkout):
    with box_that_is_up(2, 1) as box:
        asv = box.start(
            *(sys.executable, "-m", "benchmarks.asv_run", "--bench", "strong_scaling"),
            folder=checkout.root,
            HOME=str(checkout.home),
            SPARSE2D_ASV_SIZE="smoke",
            SPARSE2D_ASV_OPTIONS="--launcher slurm --ranks-per-host 1",
        )
        out, err = asv.communicate(timeout=HANG_S)
        assert asv.returncode == 0, err
        assert box.queue == ""
    assert "Slurm: job" in err
    assert "2D T=2 M=2" in out
    kept = checkout.records()["smoke, strong scaling, T=2, 2D reference_2d M=2"]
    record = store.read(checkout.root / kept["record"])
    assert [rank.host for rank in record.launches[0].ranks] == ["h1", "h2"]
    assert "cluster_in_a_box" in kept["flags"]
    assert checkout.results()["strong_scaling.smoke.track_step_ms"][3] > 0
