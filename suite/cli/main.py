"""``sparse2d``: parses, runs one verb, and turns whatever fails into one message and an exit code.

Exit codes: 0 fine; 1 a verdict failed; 2 bad input or environment; 3 the run failed; 130 Ctrl-C.
"""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from suite.cli import ablate, compare, doctor, gate, parity, reproduce, run, selftest, sweep, trace, workloads
from suite.cli.failures import located, relative, report_of, show_error
from suite.cli.options import with_traced_ranks
from suite.cli.streams import messages
from suite.cli.verb import print_document
from suite.session import Interrupted
from suite.store import RECORD

app = typer.Typer(
    name="sparse2d",
    help="Reproducibility benchmark suite for 2D sparse parallelism of recommendation models.",
    add_completion=False,
    rich_markup_mode=None,
)
app.command("doctor")(doctor.doctor)
app.command("selftest")(selftest.selftest)
app.add_typer(workloads.app, name="workloads")
app.command("run")(run.run)
app.command("sweep")(sweep.sweep)
app.command("trace")(trace.trace)
app.command("compare")(compare.compare)
app.command("parity")(parity.parity)
app.command("ablate")(ablate.ablate)
app.command("gate")(gate.gate)
app.command("reproduce")(reproduce.reproduce)


def execute(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("sparse2d", with_traced_ranks(arguments)) as context:
            return int(command.invoke(context))
    except typer.Exit as leave:
        return leave.exit_code
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        with _uninterrupted():
            return _fail(error, arguments)


def _fail(error: BaseException, arguments: Sequence[str]) -> int:
    report, code = report_of(error, arguments)
    folder = error.path if isinstance(error, Interrupted) else None
    console = messages()
    if "--debug" in arguments:
        traceback.print_exception(error, file=console.file)
    if "--json" in arguments:
        kept = {"record": relative(folder / RECORD)} if folder is not None else {}
        verb = next((a for a in arguments if not a.startswith("-")), None)
        flags = error.record.environment.flags if isinstance(error, Interrupted) else None
        return print_document(verb, kept | {"error": located(report, folder)}, code, flags)
    show_error(report, console)
    if folder is not None:
        console.print(f"Record: {relative(folder / RECORD)}", soft_wrap=True)
    return code


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignores Ctrl-C: the report on an error is short, and a second Ctrl-C must not cut it off."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def main() -> None:
    """The entry point of ``sparse2d`` and of ``python -m suite.cli.main``."""
    sys.exit(execute(sys.argv[1:]))


if __name__ == "__main__":
    main()
