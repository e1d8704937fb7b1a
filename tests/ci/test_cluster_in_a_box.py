"""Slurm for real, on a cluster in a box: submitting, following, and what goes wrong on other hosts.

The ranks import no torch and train nothing, so that what is tested is fast: the way there and back. Skipped,
with the reason, where a box cannot be made. Deadlines are those of docs/faults.md, and 5 s for the end to
show here.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from suite.store import read
from tests.helpers.box import TINY, Box, Running, box_that_is_up, none_left

SHOWS_S = 5.0
ENDED_S, LOST_S = 3.0 + SHOWS_S, 13.0 + SHOWS_S
LAYOUT = ("--world-size", "4", "--replica-groups", "2", "--launcher", "slurm", "--ranks-per-host", "2")


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
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


def test_a_sweep_in_one_job(started: Started, tmp_path: Path) -> None:
    sweep = started(
        *("sweep", TINY, "--world-sizes", "2,4", "--replica-groups", "1,2"),
        *("--launcher", "slurm", "--ranks-per-host", "2"),
    )
    code, document = sweep.end()
    assert code == 0, sweep.told
    shapes = [(run["world_size"], run["replica_groups"]) for run in document["runs"]]
    assert shapes == [(2, 1), (2, 2), (4, 1), (4, 2)]
    assert "Slurm: job" in "".join(sweep.told)
    record = read(tmp_path / document["runs"][3]["record"])
    assert [rank.host for rank in record.launches[0].ranks] == ["h1", "h1", "h2", "h2"]
    cluster = record.environment.cluster
    assert cluster is not None
    assert (cluster.launcher, cluster.nodes, cluster.partition) == ("slurm", "h[1-2]", "main")
    assert "cluster_in_a_box" in record.environment.flags


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
