"""The process of one rank: ``python -m suite.worker JOB``, with the environment variables of torchrun.

This file keeps the promises of a process: it dies with its launcher, ignores the terminal's Ctrl-C, and
says what it ends with. ``rank_run.py`` does the work. Imports wait until the promise they come after is
made: until then a launcher that is killed leaves this process behind, and importing takes seconds.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from suite.launchers.linux import die_with_parent
from suite.launchers.variables import PARENT_PID, REPORT_FD


def main(job_file: str) -> None:
    """Runs this rank and ends the process: exit code 0 when its output is written, else 1."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if PARENT_PID in os.environ:
        die_with_parent(int(os.environ[PARENT_PID]))
    faulthandler.enable()

    from suite.launchers.reporter import Reporter

    rank = int(os.environ["RANK"])
    fd = os.environ.get(REPORT_FD)
    reporter = Reporter(rank, None if fd is None else int(fd))
    try:
        from suite.job import Job, output_file, write_atomically
        from suite.rank_run import run_rank

        job = Job.model_validate_json(Path(job_file).read_text(encoding="utf-8"))
        output = run_rank(job, rank, reporter)
        write_atomically(output_file(job.output, rank), output.model_dump_json())
    except BaseException as error:  # a sys.exit of the user's code, too: see _exit
        # Before it is told, for the launcher then ends this process; its log may be on a full disk.
        with suppress(OSError):
            traceback.print_exc()
        reporter.failed(error)
        _exit(1)
    reporter.finished()
    _exit(0)


def _exit(code: int) -> NoReturn:
    # Not sys.exit: all is said, and taking down the interpreter can crash or wait for ever in the
    # threads of process groups whose peers are gone.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
