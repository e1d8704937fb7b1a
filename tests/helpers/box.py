"""A cluster in a box for tests (``ci/cluster-in-a-box``), and commands on it whose ranks import no torch."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.leftovers import MARK, marked
from tests.helpers.light_tasks import STEP_S

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "ci/cluster-in-a-box"
TINY = "tests.helpers.records:tiny"


class Box:
    """A box that is up: ``hosts`` hosts named h1, h2, ..., each with ``ranks_per_host`` ranks."""

    def __init__(self, name: str) -> None:
        self._environment = {**os.environ, "BOX": name, "PYTHONPATH": str(ROOT)}

    def script(self, *arguments: str) -> str:
        """What the script prints.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        done = subprocess.run(
            [SCRIPT, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    def start(self, *words: str, folder: Path, mark: str = "", **variables: str) -> subprocess.Popen[str]:
        """A command on the login host, in ``folder``. stdout and stderr are pipes; it leads its own
        session."""
        return subprocess.Popen(
            [SCRIPT, "exec", *words],
            env={**self._environment, MARK: mark, **variables},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def queue(self) -> str:
        """What is queued or running: nothing, mostly."""
        return self.script("exec", "squeue", "--noheader").strip()


def skip_without_box() -> None:
    """Skips, with the reason, where this machine can have none."""
    able = subprocess.run([SCRIPT, "check"], capture_output=True, text=True, check=False)
    if able.returncode:
        pytest.skip(able.stderr.strip())


@contextmanager
def box_that_is_up(hosts: int, ranks_per_host: int, *options: str) -> Iterator[Box]:
    """Makes it, one at a time on this machine, and skips where this machine cannot."""
    skip_without_box()
    with open("/run/lock/sparse2d-box-test", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        box = Box("test")
        box.script("down")  # what a test run that was killed left behind
        box.script("up", str(hosts), str(ranks_per_host), *options)
        try:
            yield box
        finally:
            box.script("down")


class Running:
    """A ``sparse2d`` command with light ranks that is going on, on a box."""

    def __init__(self, box: Box, folder: Path, mark: str, *arguments: str, step_s: float = 0.0) -> None:
        self.box = box
        self._mark = mark
        command = [sys.executable, "-m", "tests.helpers.light_command", *arguments, "--json"]
        self._process = box.start(*command, folder=folder, mark=mark, **{STEP_S: str(step_s)})
        self.told: list[str] = []

    def wait_for(self, text: str) -> None:
        """Until this is in a line on stderr."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.told.append(line)
            if text in line:
                return
        raise AssertionError(f"it ended before {text!r}: {self.told}")

    def rank(self, rank: int) -> int:
        """The process id of a rank."""
        found = [
            pid
            for pid in marked(self._mark)
            if f"RANK={rank}".encode() in (environment := _environ(pid))
            and _has(environment, b"SPARSE2D_REPORT_FD=")
        ]
        assert len(found) == 1, found
        return found[0]

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.killpg(self._process.pid, signal.SIGINT)

    def end(self, timeout_s: float = 90.0) -> tuple[int, dict[str, Any]]:
        """Waits for its end; the exit code, and the document on stdout."""
        out, err = self._process.communicate(timeout=timeout_s)
        self.told.append(err)
        return self._process.returncode, json.loads(out) if out else {}


def none_left(box: Box, mark: str, seconds: float) -> bool:
    """Whether, at some moment of the next seconds, nothing is queued or running."""
    return within(seconds, lambda: not box.queue and not marked(mark))


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether it holds at some moment of the next seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _has(environment: list[bytes], beginning: bytes) -> bool:
    return any(entry.startswith(beginning) for entry in environment)
