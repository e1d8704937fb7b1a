"""One side of a gate as a place to run ``sparse2d`` in: a checkout, its environment, and whose harness.

A repository that is this project itself is run with each side's own harness: a change may be anywhere. Any
other is run with the harness that gates it, on both sides, so that a difference is the repository's own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import ConfigError, ErrorReport
from suite.gate.plan import Configuration
from suite.record import RunRecord
from suite.store import read

#: The checkout, or the installation, that this module is part of.
HARNESS = Path(__file__).resolve().parents[2]
_CLI = Path("suite/cli/main.py")
_TAIL = 600


@dataclass(frozen=True)
class Place:
    """Where a side's commands run.

    Attributes:
        name: ``base`` or ``head``.
        folder: the checkout; the commands' working folder.
        runs: where its records go.
        python: the interpreter of its environment.
        timeout_s: after so many seconds a command is ended.
    """

    name: str
    folder: Path
    runs: Path
    python: Path = Path(sys.executable)
    timeout_s: float = 1800

    @property
    def is_this_project(self) -> bool:
        """Whether the checkout brings its own harness."""
        return (self.folder / _CLI).is_file()

    def set_up(self, command: str, log: Path) -> None:
        """Runs the user's set-up command in the checkout.

        Raises:
            ConfigError: it fails, or the environment it makes has no interpreter.
        """
        with log.open("wb") as file:
            code = _run(["/bin/sh", "-c", command], self.folder, dict(os.environ), file, file, None)
        if code != 0:
            raise ConfigError(
                "setup",
                command,
                f"it ended with exit code {code} on the {self.name} side: {_tail(log)}",
                f"Mend the command; all it printed is in {log}.",
                kind="environment",
            )

    def sparse2d(self, arguments: Sequence[str], logs: Path) -> tuple[int, dict[str, Any] | None]:
        """Runs ``sparse2d ... --json`` in a fresh process; its exit code, and its document if it has one."""
        logs.mkdir(parents=True, exist_ok=True)
        harness = self.folder if self.is_this_project else HARNESS
        path = [str(harness), str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(path))}
        # -P: the working folder must not come before the harness.
        command = [str(self.python), "-P", "-m", "suite.cli.main", *arguments, "--json"]
        out, err = logs / "stdout", logs / "stderr"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            code = _run(command, self.folder, environment, stdout, stderr, self.timeout_s)
        try:
            document = json.loads(out.read_bytes())
        except ValueError:
            return code, None
        return code, document if isinstance(document, dict) else None

    def launch(
        self, configuration: Configuration, extra: Sequence[str], logs: Path
    ) -> RunRecord | ErrorReport:
        """One launch of a configuration: its record, or why there is none."""
        arguments = run_arguments(configuration, self.runs, extra)
        code, document = self.sparse2d(arguments, logs)
        if code == 0 and document is not None and document.get("record"):
            try:
                return read(self.folder / document["record"])
            except ConfigError as error:  # of a schema that this harness does not read
                return error.report
        return failure(code, document, logs / "stderr")


def run_arguments(configuration: Configuration, runs: Path, extra: Sequence[str]) -> list[str]:
    """The command line of one launch, after ``sparse2d``."""
    implementation = configuration.implementation
    return [
        "run",
        configuration.workload,
        *("--world-size", str(configuration.world_size)),
        *("--replica-groups", str(configuration.replica_groups)),
        *(() if implementation is None else ("--implementation", implementation)),
        *("--seed", str(configuration.seed)),
        *("--launches", "1"),
        *("--runs", str(runs)),
        *configuration.options,
        *extra,
    ]


def failure(code: int, document: dict[str, Any] | None, stderr: Path) -> ErrorReport:
    """Why a command has no result: its own error, or the end of what it printed."""
    error = (document or {}).get("error")
    if isinstance(error, dict) and error.get("message"):
        known = {key: value for key, value in error.items() if key in ErrorReport.model_fields}
        return ErrorReport.model_validate({"kind": "failed"} | known)
    if code < 0:
        return ErrorReport(kind="failed", message=f"it was ended by {signal.Signals(-code).name}.")
    return ErrorReport(kind="failed", message=f"exit code {code}: {_tail(stderr)}", log=str(stderr))


def _tail(file: Path) -> str:
    text = file.read_text(errors="replace").strip()
    return text[-_TAIL:].replace("\n", " | ") or "it printed nothing."


def _run(
    command: Sequence[str],
    folder: Path,
    environment: dict[str, str],
    stdout: Any,
    stderr: Any,
    timeout_s: float | None,
) -> int:
    """Runs a command to its end; on Ctrl-C or at the deadline ends it, its ranks with it."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
    )
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return _end(process)
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> int:
    """SIGINT, which lets a run keep its record and end its ranks; SIGKILL where that does not help."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return process.returncode
