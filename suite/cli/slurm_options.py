"""The options of ``run`` and ``sweep`` that a job of Slurm is asked for with."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, cast, get_args

import typer
from rich.console import Console

from suite import session, submission
from suite.cli.options import RunOptions
from suite.errors import ConfigError
from suite.launchers.base import Progress
from suite.launchers.slurm import is_inside
from suite.spec import RunSpec

Jobs = Literal["sweep", "run"]
#: Options of sbatch that a job is submitted with, or that would make it run something else than the sweep.
#: sbatch takes any unambiguous beginning of a name, so these are refused by their beginnings, too.
_OURS = (
    *("--array", "--nodes", "--ntasks", "--ntasks-per-node", "--output", "--chdir", "--wrap", "--export"),
    *("--requeue", "--parsable", "--test-only", "--wait", "--help", "--usage", "--version"),
)


@dataclass(frozen=True)
class SlurmOptions:
    """Under ``--launcher slurm`` outside of an allocation, what the submitted job is asked for with."""

    slurm_nodes: Annotated[
        int | None,
        typer.Option(
            help="Hosts that the ranks (of the largest world size) are spread over: another way to say "
            "--ranks-per-host.  [default: T / ranks per host]"
        ),
    ] = None
    slurm_partition: Annotated[str | None, typer.Option(metavar="NAME", help="Partition of the job.")] = None
    slurm_account: Annotated[str | None, typer.Option(metavar="NAME", help="Account to charge.")] = None
    slurm_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time limit, as sbatch takes it (30, 2:00:00).")
    ] = None
    slurm_gpus_per_node: Annotated[
        str | None, typer.Option(metavar="[TYPE:]N", help="GPUs on each host, as sbatch takes it.")
    ] = None
    slurm_options: Annotated[
        str, typer.Option(metavar="OPTIONS", help='More options of sbatch, such as "--qos=low --mem=0".')
    ] = ""
    slurm_jobs: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="One job for the whole sweep, or one for each run (configuration), which do not run beside "
            "each other. One of sweep, run.  [default: sweep]",
        ),
    ] = None

    def spread(self, options: RunOptions, world_size: int) -> RunOptions:
        """The options of a run, with the ranks a host that ``--slurm-nodes`` means.

        Raises:
            ConfigError: the ranks cannot be spread evenly, or ``--ranks-per-host`` says otherwise.
        """
        nodes = self.slurm_nodes
        if nodes is None:
            return options
        if nodes < 1 or world_size % nodes:
            raise ConfigError(
                "slurm_nodes",
                nodes,
                f"{world_size} ranks cannot be spread evenly over that many hosts.",
                f"Use a divisor of {world_size}.",
            )
        if options.ranks_per_host not in (None, world_size // nodes):
            raise ConfigError(
                "slurm_nodes",
                nodes,
                f"--ranks-per-host {options.ranks_per_host} would need "
                f"{world_size // (options.ranks_per_host or 1)} hosts.",
                "Leave one of the two out.",
            )
        return dataclasses.replace(options, ranks_per_host=world_size // nodes)

    def request(self, launcher: str) -> submission.Request | None:
        """What to ask of Slurm; None where ranks are started from here.

        Raises:
            ConfigError: an option that is not valid, or that would do nothing here.
        """
        if launcher != "slurm" or is_inside():
            why = "this is inside an allocation" if launcher == "slurm" else "the launcher is not slurm"
            for name in [f.name for f in dataclasses.fields(self) if f.name != "slurm_nodes"]:
                if value := getattr(self, name):
                    raise ConfigError(
                        name,
                        value,
                        f"no job is submitted: {why}.",
                        "Leave it out.",
                    )
            return None
        if self.slurm_jobs not in (None, *get_args(Jobs)):
            raise ConfigError(
                "slurm_jobs",
                self.slurm_jobs,
                "there is no such way.",
                f"Use one of {', '.join(get_args(Jobs))}.",
            )
        return submission.Request(
            partition=self.slurm_partition,
            account=self.slurm_account,
            time=self.slurm_time,
            gpus_per_node=self.slurm_gpus_per_node,
            options=self._more(),
            jobs=cast(Jobs, self.slurm_jobs or "sweep"),
        )

    def _more(self) -> tuple[str, ...]:
        """``--slurm-options`` as words for sbatch."""
        try:
            words = tuple(shlex.split(self.slurm_options))
        except ValueError as error:
            raise self._refused(f"it cannot be split into options: {error}.", "Close quotes.") from error
        for word in words:
            # Of sbatch's words the first that is no option is the script.
            if not re.fullmatch(r"--[a-z][a-z-]+(=.*)?", word, re.DOTALL):
                raise self._refused(
                    f"{word} is no option's long name, alone or with its value after =.",
                    "Write them like --qos=low --exclusive.",
                )
            if any(ours.startswith(word.split("=")[0]) for ours in _OURS):
                raise self._refused(
                    f"{word} changes what the job runs, or where it writes.",
                    "Leave it out: --slurm-nodes and --ranks-per-host say how many hosts and tasks.",
                )
        return words

    def _refused(self, message: str, remedy: str) -> ConfigError:
        return ConfigError("slurm_options", self.slurm_options, message, remedy)


def submitted(
    runs: Sequence[RunSpec],
    options: RunOptions,
    request: submission.Request,
    console: Console,
    on_progress: Callable[[int, Progress], None],
    on_outcome: Callable[[int, session.Outcome], None],
    resume: bool,
) -> list[session.Outcome]:
    """``submission.sweep``, with the queue's state shown."""

    def on_state(text: str) -> None:
        console.print(f"Slurm: {text}", markup=False, soft_wrap=True)

    return submission.sweep(runs, options.runs, request, on_progress, on_outcome, on_state, resume)
