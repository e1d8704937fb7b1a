"""Slurm's commands, and what they say, as values.

Plain commands, not a library: submitit pickles a Python function into a job and gives back its result; what
is needed here is ranks in a known order on known hosts, supervised while they run, a job's state while it
waits, and why it ended. Those are ``sbatch``, ``srun``, ``squeue``, ``scontrol`` and ``scancel``, and parsing
two of their outputs. ``sacct`` is not used: many clusters, and all test ones, have no accounting.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: For a command that asks the controller something, in seconds.
PATIENCE_S = 20.0

#: In what a command complains about where there is no cluster, or its controller is away.
_NO_CONTROLLER = ("resolve_ctls_from_dns_srv", "fetch_config", "Unable to contact slurm controller")

#: States in which a job has not ended.
_ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "REQUEUED", "RESIZING"}
_ALIVE |= {"REQUEUE_HOLD", "REQUEUE_FED", "SIGNALING", "STAGE_OUT", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
#: Reasons for which a job waits for ever, unless somebody changes the cluster.
NEVER = {
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "PartitionDown",
    "PartitionInactive",
    "BadConstraints",
    "DependencyNeverSatisfied",
    "JobHeldAdmin",
    "JobHeldUser",
    "AccountNotAllowed",
    "InvalidAccount",
    "InvalidQOS",
    "QOSNotAllowed",
    "AssociationJobLimit",
    "AssocMaxWallDurationPerJobLimit",
    "AssocMaxNodePerJobLimit",
    "QOSMaxWallDurationPerJobLimit",
    "QOSMaxNodePerJobLimit",
    "launch_failed_requeued_held",
}


class SlurmError(Exception):
    """A command that did not do what it was asked; the text is Slurm's own."""


class NoController(SlurmError):
    """No Slurm controller answers the command."""


@dataclass(frozen=True)
class JobState:
    """A job as ``scontrol`` shows it: its state (``RUNNING``), the reason, its nodes, how long it has run and
    may, in seconds (None: without limit)."""

    state: str
    reason: str
    nodes: str
    run_s: int | None
    limit_s: int | None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs or waits any more."""
        return self.state not in _ALIVE

    @property
    def waits_for_ever(self) -> bool:
        """Whether it is queued and nothing that ends by itself would let it start."""
        return self.state == "PENDING" and self.reason in NEVER

    def text(self) -> str:
        """In a few words, for people."""
        reason = f" ({self.reason})" if self.reason not in ("", "None") else ""
        where = f" on {self.nodes}" if self.state == "RUNNING" and self.nodes else ""
        return f"{self.state.lower()}{where}{reason}"


def parse_job(text: str) -> JobState:
    """What ``scontrol --oneliner show job`` prints of one job.

    Raises:
        SlurmError: it is something else.
    """
    fields = dict(re.findall(r"(?:^|\s)([A-Za-z/:]+)=(\S*)", text))
    if "JobState" not in fields:
        raise SlurmError(f"scontrol says nothing of a job: {text.strip()[:200]!r}")
    nodes = fields.get("NodeList", "")
    return JobState(
        state=fields["JobState"].split("+")[0],
        reason=fields.get("Reason", "").split("_Resv")[0],
        nodes="" if nodes == "(null)" else nodes,
        run_s=_seconds(fields.get("RunTime", "")),
        limit_s=_seconds(fields.get("TimeLimit", "")),
    )


def job_state(job: str) -> JobState:
    """The state of a job, also for some minutes after its end.

    Raises:
        SlurmError: the controller does not know it, or does not answer.
    """
    return parse_job(command("scontrol", "--oneliner", "show", "job", job))


def why_ended(job: str) -> tuple[str, str] | None:
    """Why a job was ended, or is being ended: a kind of error, and the beginning of a sentence; None where it
    was not.

    Until its last process has gone, a job that is ended for any reason is called completing. Over its time it
    is where it has run for as long as it may; what else it is shows only later.
    """
    try:
        now = job_state(job)
    except SlurmError:
        return None
    which = f"{job} on {now.nodes}" if now.nodes else job
    if now.state == "COMPLETING":
        if now.run_s is not None and now.limit_s is not None and now.run_s >= now.limit_s:
            return "time_limit", f"Job {which} was over its time limit"
        return "cancelled", f"Job {which} was ended by Slurm (cancelled, preempted, or a node failed)"
    if now.state in ("NODE_FAIL", "BOOT_FAIL"):
        down = _nodes_that_are_down()
        return "node_failed", f"A node of job {which} failed" + (f" (down: {down})" if down else "")
    return {
        "TIMEOUT": ("time_limit", f"Job {which} was over its time limit"),
        "DEADLINE": ("time_limit", f"Job {which} reached its deadline"),
        "PREEMPTED": ("preempted", f"Job {which} was preempted by another job"),
        "CANCELLED": ("cancelled", f"Job {which} was cancelled"),
        "REVOKED": ("cancelled", f"Job {which} was revoked"),
        "OUT_OF_MEMORY": ("out_of_memory", f"Job {which} was over its memory limit"),
    }.get(now.state)


def _nodes_that_are_down() -> str:
    try:
        nodes = command("sinfo", "--noheader", "--Node", "--states=down", "--format=%N").split()
    except SlurmError:
        return ""
    return ", ".join(dict.fromkeys(nodes))


def submit(options: Sequence[str], script: str, environment: Mapping[str, str]) -> str:
    """Submits a job and returns its id.

    Raises:
        SlurmError: it was refused; the text says why.
    """
    printed = command("sbatch", "--parsable", *options, script, environment=environment)
    return printed.strip().splitlines()[-1].split(";")[0]


def cancel(*arguments: str) -> None:
    """``scancel``; harmless for what has ended.

    Raises:
        SlurmError: the controller does not answer.
    """
    command("scancel", "--quiet", *arguments)


def command(*words: str, environment: Mapping[str, str] | None = None) -> str:
    """What one of Slurm's commands prints.

    Raises:
        NoController: no controller answers it.
        SlurmError: it is missing, it failed, or it does not answer.
    """
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment
        )
    except FileNotFoundError as error:
        raise SlurmError(f"{words[0]} is not installed here") from error
    except subprocess.TimeoutExpired as error:
        raise NoController(f"{words[0]} had no answer within {PATIENCE_S:g} s") from error
    except OSError as error:
        raise SlurmError(f"{words[0]} cannot be started: {error}") from error
    if done.returncode:
        said = complaint(done.stderr) or f"{words[0]} ended with exit code {done.returncode}"
        raise NoController(said) if any(sign in said for sign in _NO_CONTROLLER) else SlurmError(said)
    return done.stdout


def complaint(text: str) -> str:
    """What a command complains about, without the prefixes of its lines; each once, in order."""
    lines = (line.strip() for line in text.splitlines() if not line.startswith("slurmstepd: "))
    said = [line for line in dict.fromkeys(re.sub(r"^\w+: (error|fatal): ", "", x) for x in lines) if line]
    return "; ".join(said[:3])


def _seconds(text: str) -> int | None:
    """Of ``[days-]hours:minutes:seconds``; None for UNLIMITED and the like."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
