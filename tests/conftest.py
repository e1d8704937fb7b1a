"""Fixtures that all tests share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from tests.helpers.distributed import World


@pytest.fixture(scope="session")
def world() -> Iterator[Callable[[int], World]]:
    """``world(T)``: T ranks in one process group, kept for the session."""
    worlds: dict[int, World] = {}
    yield lambda size: worlds.setdefault(size, World(size))
    for started in worlds.values():
        started.close()


# A shell that starts the tests in the background has SIGINT ignored, and so would every process they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, on machines of any speed, and no files left behind.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
