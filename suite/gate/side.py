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
from contextlib import suppress
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
#: A run has ended its ranks 3 s after a signal (docs/faults.md).
_END_S = 6.0


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
            code, _ = _run(["/bin/sh", "-c", command], self.folder, dict(os.environ), file, file, None)
        if code != 0:
            raise ConfigError(
                "setup",
                command,
                f"it ended with exit code {code} on the {self.name} side: {_tail(log)}",
                f"Mend the command; all it printed is in {log}.",
                kind="environment",
            )

    def sparse2d(self, arguments: Sequence[str], logs: Path) -> tuple[int, dict[str, Any] | None]:
        """Runs ``sparse2d ... --json`` in a fresh process; its exit code, and its document if it has one.

        One that is ended at ``timeout_s`` has a document with that as its error.
        """
        logs.mkdir(parents=True, exist_ok=True)
        harness = self.folder if self.is_this_project else HARNESS
        path = [str(harness), str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(path))}
        # -P: the working folder must not come before the harness.
        command = [str(self.python), "-P", "-m", "suite.cli.main", *arguments, "--json"]
        out, err = logs / "stdout", logs / "stderr"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            code, late = _run(command, self.folder, environment, stdout, stderr, self.timeout_s)
        if late:
            return code, {"error": _too_late(self.timeout_s).model_dump()}
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


def _too_late(timeout_s: float) -> ErrorReport:
    return ErrorReport(
        kind="timed_out",
        field="launch_timeout_s",
        value=timeout_s,
        message=f"it was ended after launch_timeout_s = {timeout_s:g} s.",
        remedy="Give it more time in the plan, or fewer steps.",
    )


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
) -> tuple[int, bool]:
    """Runs a command to its end; on Ctrl-C or at the deadline ends it, its ranks with it.

    Returns:
        Its exit code, and whether it was the deadline that ended it.
    """
    # A session of its own, so that all it has started can be ended with it.
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )
    try:
        return process.wait(timeout_s), False
    except subprocess.TimeoutExpired:
        _end(process)
        return process.returncode, True
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, which lets a run keep its record and end its ranks; SIGKILL for what is left after that."""
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
