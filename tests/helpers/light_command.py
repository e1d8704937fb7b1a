"""The command line on Slurm or torchrun with ranks that import no torch.

``python -m tests.helpers.light_command run ...`` is ``sparse2d run ...``.

The jobs that it submits run this module, too. How ranks behave: ``tests/helpers/light_tasks.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from suite import implementation, session, submission, submitted
from suite.cli.main import execute
from suite.launchers.slurm import SlurmLauncher
from suite.launchers.torchrun import TorchrunLauncher

FAKES = "tests.helpers.records"


class LightSlurm(SlurmLauncher):
    worker = "tests.helpers.light_tasks"


class LightTorchrun(TorchrunLauncher):
    worker = "tests.helpers.light_tasks"


def main() -> int:
    """A command of ``sparse2d``, or the job of one, whose argument is a folder."""
    session.LAUNCHERS["slurm"] = "tests.helpers.light_command:LightSlurm"
    session.LAUNCHERS["torchrun"] = "tests.helpers.light_command:LightTorchrun"
    implementation.BUILT_IN["baseline_1d"] = f"{FAKES}:OneGroup"
    implementation.BUILT_IN["reference_2d"] = f"{FAKES}:Anything"
    submission.JOB_MODULE = "tests.helpers.light_command"
    folder = Path(sys.argv[1])
    return submitted.main(folder) if folder.is_absolute() else execute(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
