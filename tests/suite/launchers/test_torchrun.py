"""What torchrun says, without torchrun."""

from __future__ import annotations

import pytest

from suite.errors import ConfigError
from suite.launchers.torchrun import Start, check_start
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
