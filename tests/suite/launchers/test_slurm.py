"""What is asked of Slurm and what is made of its answers, without Slurm."""

from __future__ import annotations

import re

import pytest

from suite.errors import ConfigError
from suite.launchers import slurm_commands
from suite.launchers.remote import check_hosts
from suite.launchers.slurm import SlurmLauncher, check_allocation, is_inside, srun
from suite.launchers.slurm_commands import NoController, SlurmError, complaint, parse_job, why_ended
from suite.spec import LayoutSpec, RunSpec
from tests.helpers.records import make_run

# As Slurm 22.05 printed it on a cluster in a box, shortened.
RUNNING = (
    "JobId=1 JobName=wrap UserId=root(0) Priority=4294901759 QOS=(null) JobState=RUNNING Reason=None "
    "Dependency=(null) ExitCode=0:0 RunTime=00:00:07 TimeLimit=01:00:00 TimeMin=N/A "
    "StartTime=2026-12-01T03:26:22 EndTime=2026-12-01T04:26:22 Partition=main ReqNodeList=(null) "
    "NodeList=h[1-2] BatchHost=h1 NumNodes=2 ReqB:S:C:T=0:0:*:* Command=(null) WorkDir=/a b/c Power= "
)
PENDING = RUNNING.replace("RUNNING Reason=None", "PENDING Reason=Resources").replace("h[1-2]", "(null)")


def state(name: str, **fields: str) -> str:
    text = RUNNING.replace("JobState=RUNNING", f"JobState={name}")
    for field, value in fields.items():
        before = parse_field(text, field)
        text = text.replace(f"{field}={before}", f"{field}={value}")
    return text


def parse_field(text: str, field: str) -> str:
    return text.split(f" {field}=")[1].split(" ")[0]


def test_a_running_job() -> None:
    job = parse_job(RUNNING)
    assert (job.state, job.nodes, job.run_s, job.limit_s) == ("RUNNING", "h[1-2]", 7, 3600)
    assert not job.is_over
    assert job.text() == "running on h[1-2]"


def test_a_pending_job() -> None:
    job = parse_job(PENDING)
    assert (job.nodes, job.text()) == ("", "pending (Resources)")
    assert not job.waits_for_ever
    assert parse_job(PENDING.replace("Resources", "PartitionNodeLimit")).waits_for_ever


def test_time_limits() -> None:
    assert parse_job(state("RUNNING", TimeLimit="2-01:00:30")).limit_s == 49 * 3600 + 30
    assert parse_job(state("RUNNING", TimeLimit="UNLIMITED")).limit_s is None


@pytest.mark.parametrize("name", ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"])
def test_states_of_a_job_that_is_over(name: str) -> None:
    assert parse_job(state(name)).is_over


def test_what_is_no_job() -> None:
    with pytest.raises(SlurmError, match="nothing of a job"):
        parse_job("No jobs in the system")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (RUNNING, None),
        (state("COMPLETED"), None),
        (state("FAILED"), None),
        (state("TIMEOUT"), "time_limit"),
        (state("PREEMPTED"), "preempted"),
        (state("NODE_FAIL"), "node_failed"),
        (state("CANCELLED"), "cancelled"),
        (state("COMPLETING"), "cancelled"),
        (state("COMPLETING", RunTime="01:00:02"), "time_limit"),
        (state("COMPLETING", RunTime="01:00:02", TimeLimit="UNLIMITED"), "cancelled"),
    ],
)
def test_why_a_job_ended(monkeypatch: pytest.MonkeyPatch, text: str, kind: str | None) -> None:
    monkeypatch.setattr(slurm_commands, "command", lambda *words: "h2\n" if words[0] == "sinfo" else text)
    why = why_ended("1")
    assert (why and why[0]) == kind
    if why is not None:
        assert "ob 1 on h[1-2]" in why[1]
    if kind == "node_failed":
        assert why is not None
        assert "down: h2" in why[1]


def test_a_controller_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def unanswered(*_: str) -> str:
        raise SlurmError("Unable to contact slurm controller")

    monkeypatch.setattr(slurm_commands, "command", unanswered)
    assert why_ended("1") is None


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(SlurmError, match="no-such-command is not installed here"):
        slurm_commands.command("no-such-command")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("fetch_config: DNS SRV lookup failed", NoController),
        ("Batch job submission failed: Unable to contact slurm controller (connect failure)", NoController),
        ("invalid partition specified: foo", SlurmError),
    ],
)
def test_no_controller_is_told_from_a_refusal(said: str, kind: type[SlurmError]) -> None:
    with pytest.raises(SlurmError, match="^" + re.escape(said)) as caught:
        slurm_commands.command("sh", "-c", 'echo "sbatch: error: $0" >&2; exit 1', said)
    assert type(caught.value) is kind


def test_complaints() -> None:
    text = (
        "sbatch: error: invalid partition specified: foo\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
        "slurmstepd: error: something else\n"
        "sbatch: error: invalid partition specified: foo\n"
    )
    assert complaint(text) == (
        "invalid partition specified: foo; Batch job submission failed: Invalid partition name specified"
    )


def run_of(world_size: int, ranks_per_host: int | None, **changes: object) -> RunSpec:
    return make_run(layout={"world_size": world_size, "ranks_per_host": ranks_per_host}, **changes)


def test_ranks_are_dealt_out_host_by_host() -> None:
    command = srun(run_of(8, 4))
    assert command[0] == "srun"
    assert {"--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--distribution=block"} <= set(command)
    assert {"--nodes=1", "--ntasks-per-node=4"} <= set(srun(run_of(4, None)))


ALLOCATION = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS_PER_NODE": "4"}


def test_an_allocation_that_fits() -> None:
    assert is_inside(ALLOCATION)
    check_allocation(run_of(8, 4), ALLOCATION)
    check_allocation(run_of(4, None), ALLOCATION)
    del_tasks = {k: v for k, v in ALLOCATION.items() if k != "SLURM_NTASKS_PER_NODE"}
    check_allocation(run_of(16, 8), del_tasks)


@pytest.mark.parametrize(
    ("world_size", "ranks_per_host", "field", "text"),
    [
        (12, 4, "layout.world_size", "the allocation has 2"),
        (16, 8, "layout.ranks_per_host", "4 tasks"),
    ],
)
def test_an_allocation_that_is_too_small(world_size: int, ranks_per_host: int, field: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_allocation(run_of(world_size, ranks_per_host), ALLOCATION)
    assert caught.value.report.field == field
    assert text in caught.value.report.message


def test_no_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(ConfigError) as caught:
        SlurmLauncher()
    assert (caught.value.report.field, caught.value.report.value) == ("launcher", "slurm")


@pytest.mark.parametrize(
    ("hosts", "ranks_per_host", "fits"),
    [
        ("a a b b", 2, True),
        ("a a a a", None, True),
        ("a b a b", 2, False),  # cyclic: a contiguous group would span both
        ("a a b b", None, False),
        ("a a a b", 2, False),
        ("a b c d", 1, True),
        ("a a b b", 1, False),
    ],
)
def test_host_order(hosts: str, ranks_per_host: int | None, fits: bool) -> None:
    error = check_hosts(hosts.split(), LayoutSpec(world_size=4, ranks_per_host=ranks_per_host))
    assert (error is None) == fits
    if error is not None:
        assert (error.field, error.value) == ("layout.ranks_per_host", ranks_per_host)
