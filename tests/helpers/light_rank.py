"""A rank without torch, for tests of the supervisor: ``python -m tests.helpers.light_rank BEHAVIOUR``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from suite.launchers.reporter import Reporter
from suite.launchers.variables import REPORT_FD

#: The control group that a rank is to exhaust.
GROUP = "LIGHT_GROUP"
LOST = RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:7905")


def main(behaviour: str) -> None:
    """Trains one step, then behaves as told."""
    reporter = Reporter(int(os.environ["RANK"]), int(os.environ[REPORT_FD]))
    reporter.at("train", 1, 3)
    match behaviour:
        case "finish":
            reporter.at("train", 3, 3)
            reporter.finished()
            os._exit(0)
        case "exit_quietly":
            os._exit(0)
        case "memory":
            reporter.failed(MemoryError())
        case "long_error":
            reporter.failed(ValueError("x" * 300_000))
        case "lose_connection":
            reporter.failed(LOST)
        case "lose_connection_first_then_wait":
            reporter.failed(LOST)
            time.sleep(60)
        case "fail_later":
            time.sleep(0.5)
            reporter.failed(ValueError("late"))
        case "ignore_sigterm":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
        case "have_a_child":
            subprocess.Popen(["sleep", "60"])
            time.sleep(60)
        case "exhaust_its_group":
            Path(os.environ[GROUP], "cgroup.procs").write_text(str(os.getpid()))
            time.sleep(3)  # it is looked at every 0.1 s, on busy cores more rarely
            hoard = []
            while True:
                hoard.append(bytearray(b"x") * 2**20)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "wait":
            time.sleep(60)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
