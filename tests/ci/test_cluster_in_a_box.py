"""Slurm for real, on a cluster in a box: submitting, following, and what goes wrong on other hosts.

The ranks import no torch and train nothing, so that what is tested is fast: the way there and back. Skipped,
with the reason, where a box cannot be made. Deadlines are those of docs/faults.md, and 5 s for the end to
show here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from suite.store import read
from tests.helpers.box import ROOT, SCRIPT, TINY, Box, Running, box_that_is_up, none_left, within

SHOWS_S = 5.0
ENDED_S, LOST_S = 3.0 + SHOWS_S, 13.0 + SHOWS_S
LAYOUT = ("--world-size", "4", "--replica-groups", "2", "--launcher", "slurm", "--ranks-per-host", "2")


def network() -> list[str]:
    """This machine's own interfaces, addresses and routes."""
    questions = (["-brief", "link"], ["-brief", "address"], ["route"], ["netns"])
    return [subprocess.check_output(["ip", *words], text=True) for words in questions]


@pytest.fixture(scope="module")
def network_before() -> list[str]:
    return network() if shutil.which("ip") else []


@pytest.fixture(scope="module")
def box(network_before: list[str]) -> Iterator[Box]:
    with box_that_is_up(2, 2) as box:
        yield box


@pytest.fixture
def mark(box: Box) -> Iterator[str]:
    """A mark on every process that the test starts; none may be left, and nothing in the queue."""
    mark = uuid.uuid4().hex
    yield mark
    assert none_left(box, mark, 20.0)


Started = Callable[..., Running]


@pytest.fixture
def started(box: Box, mark: str, tmp_path: Path) -> Started:
    """``started("run", TINY, ..., step_s=0.1)``."""

    def start(*arguments: str, step_s: float = 0.0) -> Running:
        return Running(box, tmp_path, mark, *arguments, step_s=step_s)

    return start


@pytest.mark.parametrize(
    "words",
    [
        "up 2 2 --rate",
        "up 2 2 --rate 1gbit --quota",
        "link h9 up",
        "link h1 sideways",
        "host h9 kill",
        "host h9 kill-slurmd",
        "host h9 start",
        "host h1 sideways",
    ],
)
def test_what_the_box_refuses(box: Box, words: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        box.script(*words.split())
    said = caught.value.stderr.splitlines()
    assert (caught.value.returncode, len(said)) == (2, 1), said
    assert said[0].startswith("cluster-in-a-box: "), said


@pytest.mark.parametrize("missing", ["tc", "slurmctld", "munged", "unshare"])
def test_a_machine_without_it_is_told_what_to_install(missing: str, tmp_path: Path) -> None:
    for folder in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in folder.iterdir() if folder.is_dir() else ():
            if program.name != missing and not (link := tmp_path / program.name).is_symlink():
                link.symlink_to(program)
    refused = subprocess.run(
        [SCRIPT, "check"], env=os.environ | {"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert missing in refused.stderr


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="it takes root and setpriv")
def test_a_user_who_is_not_root_is_told_so() -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with SCRIPT.open() as script:
        refused = subprocess.run(
            [*nobody, "bash", "-s", "check"], stdin=script, cwd="/", capture_output=True, text=True
        )
    assert (refused.returncode, "root" in refused.stderr) == (2, True), refused.stderr


def test_this_machine_keeps_its_own_network(box: Box, network_before: list[str]) -> None:
    *mine, namespaces = network()
    *before, _ = network_before
    assert mine == before
    assert "sparse2d-test-h1" in namespaces


def test_a_rank_has_its_share_of_a_core_and_a_host_its_link(box: Box) -> None:
    where = box.script("exec", "srun", "--ntasks=1", "--nodelist=h2", "cat", "/proc/self/cgroup")
    (group,) = {line.rpartition(":")[2] for line in where.splitlines() if "sparse2d-test" in line}
    assert group == "/sparse2d-test/h2.0"
    share = min(100, 100 * int(subprocess.check_output("nproc")) // 4) * 1000
    whole, older = (
        Path("/sys/fs/cgroup", *of) for of in ((group[1:], "cpu.max"), ("cpu", group[1:], "cpu.cfs_quota_us"))
    )
    assert int((whole if whole.exists() else older).read_text().split()[0]) == share

    def link(host: str) -> str:
        return box.script("on", host, "tc", "qdisc", "show", "dev", "eth0")

    assert "tbf" in link("h1")
    assert "rate 1Gbit" in link("h1")
    try:
        box.script("rate", "100mbit")
        assert all("rate 100Mbit" in link(host) for host in ("h1", "h2"))
        box.script("rate", "none")
        assert "tbf" not in link("h1")
    finally:
        box.script("rate", "1gbit")


def test_nothing_is_left_of_a_box_whose_making_was_killed(box: Box) -> None:
    """``box``, so that it is skipped where none can be made."""
    crashed = os.environ | {"BOX": "crashed"}
    making = subprocess.Popen([SCRIPT, "up", "2", "1"], env=crashed, start_new_session=True)
    assert within(20.0, lambda: "sparse2d-crashed-login" in network()[-1])
    os.killpg(making.pid, signal.SIGKILL)
    making.wait()
    refused = subprocess.run([SCRIPT, "up", "2", "1"], env=crashed, capture_output=True, text=True)
    assert (refused.returncode, "left behind by a crash" in refused.stderr) == (2, True)
    subprocess.run([SCRIPT, "down"], env=crashed, check=True)
    assert "sparse2d-crashed" not in network()[-1]
    left = [*Path("/run").glob("sparse2d-crashed*"), *Path("/sys/fs/cgroup").glob("**/sparse2d-crashed*")]
    assert not left
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if b"sparse2d-crashed" in _read(p)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_sweep_in_one_job(started: Started, tmp_path: Path) -> None:
    sweep = started(
        *("sweep", TINY, "--world-sizes", "4", "--replica-groups", "1,2"),
        *("--launcher", "slurm", "--ranks-per-host", "2"),
    )
    code, document = sweep.end()
    assert code == 0, sweep.told
    shapes = [(run["world_size"], run["replica_groups"]) for run in document["runs"]]
    assert shapes == [(4, 1), (4, 2)]
    assert "Slurm: job" in "".join(sweep.told)
    record = read(tmp_path / document["runs"][1]["record"])
    assert [rank.host for rank in record.launches[0].ranks] == ["h1", "h1", "h2", "h2"]
    cluster = record.environment.cluster
    assert cluster is not None
    assert (cluster.launcher, cluster.nodes, cluster.partition) == ("slurm", "h[1-2]", "main")
    assert "cluster_in_a_box" in record.environment.flags


@pytest.mark.slow
def test_real_ranks_on_two_hosts(box: Box, mark: str, tmp_path: Path) -> None:
    """With torch and gloo: they find each other, and train."""
    command = [sys.executable, "-m", "suite.cli.main", "run", "smoke", "--world-size", "2", "--json"]
    options = ["--launcher", "slurm", "--slurm-nodes", "2", "--profile-steps", "0", "--steps", "8"]
    process = box.start(*command, *options, folder=tmp_path, mark=mark)
    out, err = process.communicate(timeout=240)  # a guard against a hang, far above what it takes
    assert process.returncode == 0, err
    record = read(tmp_path / json.loads(out)["record"])
    ranks = record.launches[0].ranks
    assert [rank.host for rank in ranks] == ["h1", "h2"]
    assert ranks[0].collectives[-1].collectives, "they exchanged something"
    assert record.launches[0].quality is not None


def test_a_rank_killed_on_another_host(started: Started) -> None:
    run = started("run", TINY, *LAYOUT, "--steps", "500", step_s=0.2)
    run.wait_for("train 1/500")
    os.kill(run.rank(3), signal.SIGKILL)
    begin = time.monotonic()
    code, document = run.end()
    seconds = time.monotonic() - begin
    error = document["error"]
    assert (code, error["kind"], error["rank"]) == (3, "rank_killed", 3)
    assert "Rank 3 on h2" in error["message"]
    assert seconds < ENDED_S


slow = pytest.mark.slow
LONG = ("--steps", "5000")


@slow
def test_one_job_for_each_configuration(started: Started) -> None:
    sweep = started(
        *("sweep", TINY, "--world-sizes", "2", "--replica-groups", "1,2", "--slurm-jobs", "run"),
        *("--launcher", "slurm", "--slurm-nodes", "2"),
    )
    code, document = sweep.end()
    assert code == 0, sweep.told
    assert len(document["runs"]) == 2
    told = "".join(sweep.told)
    assert "2 jobs" not in told
    assert len({line for line in told.splitlines() if "completed" in line}) == 2


@slow
def test_inside_an_allocation(box: Box, mark: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.helpers.light_command", "run", TINY, *LAYOUT, "--json"]
    salloc = ["salloc", "--quiet", "--nodes=2", "--ntasks-per-node=2", "env", f"PYTHONPATH={ROOT}"]
    process = box.start(*salloc, *command, folder=tmp_path, mark=mark)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert '"world_size": 4' in out


@slow
def test_an_allocation_that_is_too_small(box: Box, mark: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.helpers.light_command", "run", TINY, *LAYOUT, "--json"]
    salloc = ["salloc", "--quiet", "--nodes=1", "env", f"PYTHONPATH={ROOT}"]
    process = box.start(*salloc, *command, folder=tmp_path, mark=mark)
    out, _ = process.communicate(timeout=60)
    error = json.loads(out)["error"]
    assert (error["field"], error["value"]) == ("layout.world_size", 4)
    assert "the allocation has 1" in error["message"]


@slow
def test_ctrl_c_cancels_the_job(started: Started, box: Box, tmp_path: Path) -> None:
    run = started("run", TINY, *LAYOUT, *LONG, step_s=0.2)
    run.wait_for("train 1/5000")
    run.interrupt()
    begin = time.monotonic()
    code, document = run.end()
    assert (code, document["error"]["kind"]) == (130, "interrupted")
    assert "cancelled in Slurm: " in document["error"]["message"]
    assert time.monotonic() - begin < 15
    assert not box.queue
    (record,) = tmp_path.glob("runs/*/*/*/record.json")
    kept = read(record)
    assert kept.error is not None
    assert (kept.status, kept.error.kind) == ("failed", "cancelled")


@slow
def test_a_resumed_sweep_does_the_rest(started: Started, box: Box) -> None:
    arguments = (
        *("sweep", TINY, "--world-sizes", "2,4", "--replica-groups", "2", "--launcher", "slurm"),
        *("--ranks-per-host", "2", "--steps", "40"),
    )
    sweep = started(*arguments, step_s=0.1)
    sweep.wait_for("[2/2] tiny 2D T=4 M=2: train 2")
    box.script("exec", "scancel", "--user=root")
    code, document = sweep.end()
    assert code == 3
    assert [run.get("error") and run["error"]["kind"] for run in document["runs"]] == [None, "cancelled"]
    again = started(*arguments, "--resume")
    code, document = again.end()
    assert code == 0, again.told
    assert "kept 1 of 1 launches" in "".join(again.told)


@slow
def test_cancelled_from_outside(started: Started, box: Box) -> None:
    run = started("run", TINY, *LAYOUT, *LONG, step_s=0.2)
    run.wait_for("train 1/5000")
    box.script("exec", "scancel", "--user=root")
    begin = time.monotonic()
    code, document = run.end()
    assert (code, document["error"]["kind"]) == (3, "cancelled")
    assert "h[1-2]" in document["error"]["message"]
    assert time.monotonic() - begin < 15


@slow
def test_preempted(started: Started, box: Box) -> None:
    run = started("run", TINY, *LAYOUT, *LONG, step_s=0.2)
    run.wait_for("train 1/5000")
    box.script("exec", "sbatch", "--partition=urgent", "--nodes=2", "--output=/dev/null", "--wrap=true")
    begin = time.monotonic()
    code, document = run.end()
    assert (code, document["error"]["kind"]) == (3, "preempted")
    assert "h[1-2]" in document["error"]["message"]
    assert "--resume" in document["error"]["remedy"]
    assert time.monotonic() - begin < 20


@slow
def test_a_link_that_goes_down(started: Started, box: Box) -> None:
    run = started("run", TINY, *LAYOUT, *LONG, step_s=0.2)
    run.wait_for("train 1/5000")
    box.script("link", "h2", "down")
    begin = time.monotonic()
    try:
        code, document = run.end()
        seconds = time.monotonic() - begin
    finally:
        box.script("link", "h2", "up")
    error = document["error"]
    assert (code, error["kind"], error["rank"]) == (3, "host_lost", 2)
    assert "Host h2 was lost with ranks 2, 3" in error["message"]
    assert seconds < LOST_S


@slow
def test_slurmd_killed(started: Started, box: Box) -> None:
    """With its host's tasks, as when a host dies."""
    run = started("run", TINY, *LAYOUT, *LONG, step_s=0.2)
    run.wait_for("train 1/5000")
    box.script("host", "h2", "kill")
    begin = time.monotonic()
    try:
        code, document = run.end()
        seconds = time.monotonic() - begin
    finally:
        box.script("host", "h2", "start")
    error = document["error"]
    assert (code, error["rank"]) == (3, 2)
    assert error["kind"] in ("host_lost", "node_failed")
    assert "h2" in error["message"]
    assert seconds < LOST_S


@slow
def test_slurmd_alone_killed(started: Started, box: Box) -> None:
    """What runs goes on until Slurm gives the host up; the next launch cannot start there."""
    run = started("run", TINY, *LAYOUT, *LONG, "--launches", "2", step_s=0.2)
    run.wait_for("train 1/5000")
    box.script("host", "h2", "kill-slurmd")
    begin = time.monotonic()
    try:
        code, document = run.end()
        seconds = time.monotonic() - begin
    finally:
        box.script("host", "h2", "start")
    assert code == 3
    assert document["error"]["kind"] == "node_failed"
    assert "h2" in document["error"]["message"]
    assert seconds < 45


@slow
def test_an_impossible_request(started: Started, box: Box) -> None:
    run = started("run", TINY, "--world-size", "8", "--launcher", "slurm", "--ranks-per-host", "2")
    code, document = run.end()
    error = document["error"]
    assert (code, error["kind"], error["field"]) == (2, "impossible_request", "slurm")
    assert "--nodes=4" in error["value"]
    assert not box.queue


@slow
def test_over_its_time(started: Started) -> None:
    """Slurm's time limits are of a minute, and it looks every 30 s."""
    run = started("run", TINY, *LAYOUT, *LONG, "--slurm-time", "1", step_s=0.2)
    run.wait_for("train 1/5000")
    begin = time.monotonic()
    code, document = run.end(150)
    error = document["error"]
    assert (code, error["kind"]) == (3, "time_limit")
    assert "h[1-2]" in error["message"]
    assert time.monotonic() - begin < 60 + 30 + 15
