"""The command line in this process, on a launcher and implementations that launch nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from suite import environment, implementation, session
from suite.cli.main import execute
from tests.helpers.records import FakeLauncher, succeed

FAKES = "tests.helpers.records"
TINY, OTHER = f"{FAKES}:tiny", f"{FAKES}:other"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Everything on stdout as one JSON document."""
        return json.loads(self.out)


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """``cli("run", TINY)`` in an empty working folder, 80 columns wide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(environment, "BUSY_WINDOW_S", 0.01)
    monkeypatch.setitem(session.LAUNCHERS, "local", f"{FAKES}:FakeLauncher")
    monkeypatch.setitem(implementation.BUILT_IN, "baseline_1d", f"{FAKES}:OneGroup")
    monkeypatch.setitem(implementation.BUILT_IN, "reference_2d", f"{FAKES}:Anything")
    monkeypatch.setattr(FakeLauncher, "launched", [])
    monkeypatch.setattr(FakeLauncher, "script", succeed, raising=False)

    def invoke(*arguments: str) -> Done:
        capsys.readouterr()
        code = execute(arguments)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return invoke


@pytest.fixture
def launched() -> list[Any]:
    """What the launcher was asked to launch."""
    return FakeLauncher.launched
