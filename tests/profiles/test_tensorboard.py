"""TensorBoard itself, with torch-tb-profiler, on the traces of a real run."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ports import free_port

ROOT = Path(__file__).parents[2]
DEADLINE_S = 240
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of two ranks."""
    runs = tmp_path_factory.mktemp("runs")
    command = ["run", "smoke", "--world-size", "2", "--trace", "--runs", str(runs), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "suite.cli.main", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return ROOT / json.loads(done.stdout)["trace"]


@pytest.fixture(scope="module")
def get(logdir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], bytes]]:
    """``get(path)``: what the plugin answers, once it has read the traces."""
    pytest.importorskip("tensorboard", reason="the extra [trace] is not installed")
    pytest.importorskip("torch_tb_profiler", reason="the extra [trace] is not installed")
    port = free_port()
    log = tmp_path_factory.mktemp("tensorboard") / "log"
    options = ["--logdir", str(logdir), "--host", "127.0.0.1", "--port", str(port), "--load_fast=false"]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", *options],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )

    def fetch(path: str) -> bytes:
        url = f"http://127.0.0.1:{port}/data/plugin/pytorch_profiler/{path}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            content: bytes = answer.read()
            return content

    try:
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                if json.loads(fetch("runs"))["runs"]:
                    break
            except (OSError, ValueError):
                pass
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(1)
        yield fetch
    finally:
        server.terminate()
        server.wait(timeout=30)


def answer(get: Callable[[str], bytes], path: str) -> Any:
    return json.loads(get(path))


def test_the_launch_is_a_run_and_each_rank_a_worker(get: Callable[[str], bytes]) -> None:
    assert answer(get, "runs")["runs"] == ["launch0"]
    assert {"Overview", "Trace"} <= set(answer(get, "views?run=launch0"))
    assert answer(get, "workers?run=launch0&view=Overview") == ["rank0", "rank1"]
    assert answer(get, "spans?run=launch0&worker=rank1") == ["1"]


def test_the_overview_knows_the_steps(get: Callable[[str], bytes]) -> None:
    overview = answer(get, "overview?run=launch0&worker=rank1&span=1&view=Overview")
    rows = overview["steps"]["rows"]
    assert [str(row[0]) for row in rows] == ["0", "1", "2", "3", "4"]


def test_the_trace_view_gets_the_trace_with_its_rank(get: Callable[[str], bytes]) -> None:
    content = get("trace?run=launch0&worker=rank1&span=1")
    trace = json.loads(content if content[:1] == b"{" else gzip.decompress(content))
    assert trace["distributedInfo"]["rank"] == 1
    assert trace["distributedInfo"]["world_size"] == 2
    names = {event.get("name") for event in trace["traceEvents"]}
    assert {"## dense_forward ##", "ProfilerStep#4", "gloo:all_to_all"} <= names
