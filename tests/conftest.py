"""Fixtures that all tests share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.helpers.distributed import World

if TYPE_CHECKING:
    from tests.helpers.training import Case, Trained


@pytest.fixture(scope="session")
def world() -> Iterator[Callable[[int], World]]:
    """``world(T)``: T ranks in one process group, kept for the session."""
    worlds: dict[int, World] = {}
    yield lambda size: worlds.setdefault(size, World(size))
    for started in worlds.values():
        started.close()


@pytest.fixture(scope="session")
def trained(world: Callable[[int], World]) -> Callable[[Case], list[Trained]]:
    """``trained(case)``: what each rank saw of a training of the small model, each made once a session."""
    from tests.helpers.training import train  # imports torch, which many tests do without

    done: dict[Case, list[Trained]] = {}

    def get(case: Case) -> list[Trained]:
        if case not in done:
            done[case] = world(case.world_size).run(train, case)
        return done[case]

    return get


# A shell that starts the tests in the background has SIGINT ignored, and so would every process they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, on machines of any speed, and no files left behind.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
