"""What torchrun says, without torchrun; and starts by torchrun, whose ranks train nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from suite.errors import ConfigError
from suite.launchers.torchrun import Start, check_start
from suite.store import read
from tests.helpers.box import within
from tests.helpers.leftovers import MARK, marked
from tests.helpers.light_tasks import BEHAVIOUR
from tests.helpers.ports import free_port
from tests.helpers.records import make_run

SAID = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RESTART_COUNT": "3",
}


def test_what_torchrun_says() -> None:
    assert Start.of(SAID) == Start(1, 2, 0, ("127.0.0.1", 29500), True, "3")


def test_plain_srun_has_no_store_of_an_agent() -> None:
    plain = {name: value for name, value in SAID.items() if not name.startswith("TORCHELASTIC")}
    assert Start.of(plain) == Start(1, 2, 0, ("127.0.0.1", 29500), False, "0")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"RANK": "first"}, "no number"),
        ({"MASTER_ADDR": None, "LOCAL_RANK": None}, "LOCAL_RANK, MASTER_ADDR"),
    ],
)
def test_what_is_missing_is_named(change: dict[str, str | None], text: str) -> None:
    environment = {k: v for k, v in {**SAID, **change}.items() if v is not None}
    with pytest.raises(ConfigError) as caught:
        Start.of(environment)
    assert caught.value.report.field == "launcher"
    assert text in caught.value.report.message


@pytest.mark.parametrize(
    "change",
    [
        {"RANK": "2"},
        {"RANK": "-1"},
        {"WORLD_SIZE": "0"},
        {"LOCAL_RANK": "2"},
        {"LOCAL_RANK": "-1"},
        {"MASTER_PORT": "0"},
        {"MASTER_PORT": "65536"},
        {"MASTER_ADDR": ""},
        {"MASTER_ADDR": "a..b"},
    ],
)
def test_what_contradicts_is_named(change: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        Start.of({**SAID, **change})
    field = next(iter(change))
    assert (caught.value.report.field, str(caught.value.report.value)) == (field, change[field])


def test_as_many_processes_as_ranks() -> None:
    check_start(make_run(), Start.of(SAID))
    with pytest.raises(ConfigError) as caught:
        check_start(make_run(layout={"world_size": 4}), Start.of(SAID))
    assert (caught.value.report.field, caught.value.report.value) == ("layout.world_size", 4)


def test_one_start_is_one_launch() -> None:
    with pytest.raises(ConfigError) as caught:
        check_start(make_run(launches=5), Start.of(SAID))
    assert (caught.value.report.field, caught.value.report.value) == ("launches", 5)


COMMAND = (
    *("-m", "tests.helpers.light_command", "run", "tests.helpers.records:tiny", "--launcher", "torchrun"),
    *("--world-size", "2", "--replica-groups", "2", "--json"),
)
ROOT = Path(__file__).parents[3]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
#: Far more than a start takes: torch is imported three or five times.
HANG_S = 120.0


@pytest.fixture
def port() -> str:
    return str(free_port())


def started(
    folder: Path, commands: Sequence[Sequence[str]], *variables: dict[str, str]
) -> list[tuple[int, str]]:
    """Exit code and stdout of commands that run at once; nothing of them may be left."""
    mark = uuid.uuid4().hex
    alike = {**os.environ, "PYTHONPATH": str(ROOT), MARK: mark}
    running = [
        subprocess.Popen(command, cwd=folder, env=alike | own, stdout=subprocess.PIPE, text=True)
        for command, own in zip(commands, variables or [{}] * len(commands), strict=True)
    ]
    ended = [(process.communicate(timeout=HANG_S)[0], process.returncode) for process in running]
    assert not marked(mark)
    return [(code, out) for out, code in ended]


def check_record(folder: Path, out: str) -> None:
    document = json.loads(out)
    record = read(folder / document["record"])
    assert (record.status, record.run.launcher) == ("complete", "torchrun")
    assert [rank.rank for rank in record.launches[0].ranks] == [0, 1]


@pytest.mark.slow  # the one that fails, and the one that is left alone, start in the same way
def test_a_start_by_torchrun(tmp_path: Path, port: str) -> None:
    static = ("--nnodes=1", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}")
    ((code, out),) = started(tmp_path, [(*TORCHRUN, *static, *COMMAND)])
    assert code == 0
    check_record(tmp_path, out)


@pytest.mark.slow
def test_a_start_by_variables_alone(tmp_path: Path, port: str) -> None:
    """As srun does it."""
    alike = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    own = [alike | {"RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")]
    (zero, out), (one, silent) = started(tmp_path, [(sys.executable, *COMMAND)] * 2, *own)
    assert (zero, one, silent) == (0, 0, "")
    check_record(tmp_path, out)


def test_a_rank_that_fails_under_torchrun_is_named(tmp_path: Path, port: str) -> None:
    static = ("--nnodes=1", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}")
    faulty = {f"{BEHAVIOUR}1": "fail_later"}
    ((code, out),) = started(tmp_path, [(*TORCHRUN, *static, *COMMAND)], faulty)
    assert code != 0
    error = json.loads(out)["error"]
    assert (error["kind"], error["rank"]) == ("rank_raised", 1)


def test_a_port_of_another_program_is_named(tmp_path: Path, port: str) -> None:
    alone = {
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "RANK": "0",
        "LOCAL_RANK": "0",
    }
    one = [word.replace("2", "1") if word == "2" else word for word in COMMAND]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(port)))
        taken.listen()
        ((code, out),) = started(tmp_path, [(sys.executable, *one)], alone)
    error = json.loads(out)["error"]
    assert (code, error["field"], error["value"]) == (2, "MASTER_PORT", int(port))
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_where_the_agent_is_killed_nothing_stays(tmp_path: Path, port: str) -> None:
    static = ("--nnodes=1", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}")
    mark = uuid.uuid4().hex
    agent = subprocess.Popen(
        (*TORCHRUN, *static, *COMMAND),
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            MARK: mark,
            f"{BEHAVIOUR}0": "wait",
            f"{BEHAVIOUR}1": "wait",
        },
        stdout=subprocess.DEVNULL,
    )
    # The agent, two processes of ours, rank 0's watcher, and two ranks.
    assert within(HANG_S, lambda: len(marked(mark)) == 6)
    agent.kill()
    agent.wait()
    # docs/faults.md: 3 s, and room for a busy machine.
    assert within(15.0, lambda: not marked(mark))


@pytest.mark.slow
def test_a_start_by_c10d_from_two_agents(tmp_path: Path, port: str) -> None:
    meeting = ("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=one")
    agent = (*TORCHRUN, "--nnodes=2", "--nproc-per-node=1", *meeting, *COMMAND)
    ended = started(tmp_path, [agent] * 2)
    assert [code for code, _ in ended] == [0, 0]
    check_record(tmp_path, "".join(out for _, out in ended))
