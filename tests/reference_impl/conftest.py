"""Trainings of the small model, each made once a session whatever number of tests look at it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers.distributed import World
from tests.helpers.training import Case, Trained, train


@pytest.fixture(scope="session")
def trained(world: Callable[[int], World]) -> Callable[[Case], list[Trained]]:
    """``trained(case)``: what each rank saw of it."""
    done: dict[Case, list[Trained]] = {}

    def get(case: Case) -> list[Trained]:
        if case not in done:
            done[case] = world(case.world_size).run(train, case)
        return done[case]

    return get
