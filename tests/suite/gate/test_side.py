"""Commands of a side are ended at their deadline, and nothing of them is left."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

from suite.errors import ErrorReport
from suite.gate.plan import Configuration
from suite.gate.side import Place
from tests.helpers.leftovers import MARK, none_within
from tests.helpers.small_repository import commit, git, make_repository


def test_a_launch_that_takes_too_long_says_so(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    commit(repository, "hanging", {"hangs": True})
    git(repository, "checkout", "--quiet", "hanging")
    place = Place("head", repository, tmp_path / "runs", timeout_s=1)
    found = place.launch(Configuration(name="1D", workload="smoke"), (), tmp_path / "logs")
    assert isinstance(found, ErrorReport)
    assert (found.kind, found.field) == ("timed_out", "launch_timeout_s")
    assert "launch_timeout_s = 1 s" in found.message


def test_what_a_command_started_is_ended_with_it(tmp_path: Path) -> None:
    """A shell that ignores SIGTERM, and its child."""
    mark = uuid.uuid4().hex
    repository = make_repository(tmp_path / "repository")
    program = repository / "suite" / "cli" / "main.py"
    program.write_text("import os; os.execlp('sh', 'sh', '-c', 'trap \"\" TERM; sleep 600; sleep 600')")
    os.environ[MARK] = mark
    try:
        begin = time.monotonic()
        Place("head", repository, tmp_path / "runs", timeout_s=1).sparse2d(["run"], tmp_path / "logs")
    finally:
        del os.environ[MARK]
    assert time.monotonic() - begin < 30  # a guard against waiting for the sleep
    assert none_within(mark, 2)
