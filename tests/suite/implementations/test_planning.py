"""The planner is tried before anything is launched."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from suite.errors import ConfigError
from suite.implementations import planning
from suite.implementations.reference_2d import Reference2D
from tests.helpers.training import Case

PLANNED = Case(4, "planned", replica_groups=2)


def test_a_plan_is_found() -> None:
    Reference2D.check(PLANNED.run_spec())


def test_too_little_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "available_memory", lambda: 4000)
    with pytest.raises(ConfigError, match="no plan for 2 ranks of 1,000 bytes") as error:
        Reference2D.check(PLANNED.run_spec())
    assert error.value.report.field == "layout.sharding"


def test_a_planner_that_does_not_come_to_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def plan(*arguments: Any) -> None:
        released.wait(60)

    monkeypatch.setattr(planning, "plan_by_planner", plan)
    run = PLANNED.run_spec()
    layout = run.layout.model_copy(update={"planner_timeout_s": 0.05})
    with pytest.raises(ConfigError, match="has not come to an end") as error:
        Reference2D.check(run.model_copy(update={"layout": layout}))
    released.set()
    assert error.value.report.field == "layout.planner_timeout_s"
