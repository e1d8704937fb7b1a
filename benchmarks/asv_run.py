"""``make bench``: runs asv on what is checked out, then shows the table of what it ran.

Further arguments are asv's: ``python -m benchmarks.asv_run --bench quality``. asv's own, longer output goes
to ``.asv/asv.log``. Exit codes: 0 fine; 2 bad input or environment; 3 a configuration or asv itself failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from threading import Event, Thread

from rich.console import Console

from suite import store
from suite.cli.failures import BAD_INPUT, RUN_FAILED, show_error
from suite.cli.streams import Output, messages
from suite.cli.tables import show_runs
from suite.environment import git_state, utc_now
from suite.errors import ConfigError
from suite.session import Outcome
from workloads.asv_benchmarks.support import records, sizes
from workloads.asv_benchmarks.support.measuring import PROGRESS
from workloads.asv_benchmarks.support.records import ROOT, Measured

LOG = ROOT / ".asv" / "asv.log"
#: Where asv keeps what it knows about this machine.
MACHINE = Path.home() / ".asv-machine.json"
#: As it is called by hand: asv tells environments apart by the path of their Python.
ASV = str(Path(sys.executable).with_name("asv"))


def main(arguments: list[str]) -> int:
    """Runs asv and returns the exit code."""
    console = messages()
    try:
        size = sizes.chosen()
        commit, dirty = git_state(ROOT)
        if commit is None:
            raise ConfigError(
                "commit",
                str(ROOT),
                "this is no git checkout, and asv keeps results by commit.",
                "Clone the repository, or run `sparse2d sweep dlrm_small movielens_100k`.",
            )
    except ConfigError as error:
        show_error(error.report, console)
        return BAD_INPUT
    if dirty:
        console.print(
            "Note: there are uncommitted changes; the results are kept under the commit, flagged dirty_tree."
        )
    LOG.parent.mkdir(exist_ok=True)
    began = utc_now()
    code = _asv(commit, arguments)
    kept = records.read(commit)
    mine = {name: found for name, found in kept.items() if found.created >= began}
    for name, found in mine.items():
        if found.error is not None:
            console.print(f"Failed: {name}: {found.error}", markup=False, soft_wrap=True)
    _tables([mine[c] for c in map(str, size.configurations("strong")) if c in mine], Output(highlight=False))
    if code != 0 and not any(found.error for found in mine.values()):
        console.print(LOG.read_text()[-3000:], markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"Kept for commit {commit[:8]}: `asv show HEAD` prints all figures, `asv publish` and `asv preview` "
        f"make the pages; {records.path_of(commit).relative_to(ROOT)} names the records.",
        markup=False,
        soft_wrap=True,
    )
    return RUN_FAILED if code else 0


def _asv(commit: str, arguments: list[str]) -> int:
    with LOG.open("w") as log:
        if not MACHINE.exists():
            subprocess.run([ASV, "machine", "--yes"], cwd=ROOT, stdout=log, stderr=log, check=True)
        with _shown(PROGRESS):
            command = [ASV, "run", "--set-commit-hash", commit, "--show-stderr", *arguments]
            # This checkout is measured, whichever one the environment has installed.
            variables = os.environ | {"ASV_PYTHONPATH": str(ROOT)}
            done = subprocess.run(command, cwd=ROOT, env=variables, stdout=log, stderr=log, check=False)
    return done.returncode


@contextmanager
def _shown(path: Path) -> Iterator[None]:
    """Shows what is written to a file on stderr, as it is written."""
    path.unlink(missing_ok=True)
    done = Event()

    def follow() -> None:
        position = 0
        while True:
            last = done.is_set()
            if path.exists():
                with path.open() as file:
                    file.seek(position)
                    sys.stderr.write(file.read())
                    position = file.tell()
            if last:
                return
            time.sleep(0.3)

    following = Thread(target=follow)
    following.start()
    try:
        yield
    finally:
        done.set()
        following.join()


def _tables(found: list[Measured], console: Console) -> None:
    outcomes = []
    for one in found:
        if one.record is not None:
            path = ROOT / one.record
            record = store.read(path)
            outcomes.append(Outcome(record.run, record, path.parent, record.error))
    for _, of_workload in groupby(outcomes, key=lambda outcome: outcome.run.workload):
        console.print()
        show_runs(list(of_workload), console)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
