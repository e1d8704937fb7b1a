"""Wrong specs, made by changing a valid one anywhere: refused with field, value, remedy, or good to run."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite import session
from suite.errors import ConfigError
from suite.spec import RunSpec, validated
from tests.helpers.records import make_run

FUZZ = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
#: Values that have broken programs before, and any JSON there is.
AWKWARD = st.sampled_from(
    [
        *(None, True, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, 0.5, 1e39, 1e300, 1e-320, -0.0, [], {}, [[]]),
        *("", "\x00", "\ud800", "a" * 10_000, "1", "nan", "../..", "items", "os:system", "\N{BELL}"),
        *(math.inf, -math.inf, math.nan, {"": {}}, [None], ["a", "a"]),
    ]
)
ANYTHING = st.one_of(
    AWKWARD,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ),
)


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside plain data."""
    inner: list[tuple[Any, ...]] = []
    if isinstance(content, dict):
        items: Any = content.items()
    else:
        items = enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        inner += [(*path, key), *places(value, (*path, key))]
    return inner


@st.composite
def changed(draw: st.DrawFn, content: Any) -> Any:
    """The same data with one to three changes: a value replaced, removed, or added."""
    content = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(places(content)))
        holder = content
        for key in path:
            holder = holder[key]
        how = draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
        if how == "replace":
            holder[last] = draw(ANYTHING)
        elif how == "remove":
            del holder[last]
        elif isinstance(holder, dict):
            holder[draw(st.text(max_size=8))] = draw(ANYTHING)
        else:
            holder.append(draw(st.one_of(st.just(copy.deepcopy(holder[last])), ANYTHING)))
    return content


VALID = json.loads(
    make_run(
        optimizer={"name": "momentum_scaled_rowwise_adagrad", "scale": 2.0},
        layout={"world_size": 4, "replica_groups": 2, "sharding_by_table": {"people": "row_wise"}},
    ).model_dump_json()
)


@given(changed(VALID))
@FUZZ
def test_a_run(content: Any) -> None:
    refused: ConfigError | None = None
    try:
        run = validated(RunSpec, content)
        session.check(run)
    except ConfigError as error:
        refused = error
    if refused is not None:
        assert refused.report.field
        assert refused.report.message
        assert refused.report.remedy
        refused.report.model_dump(mode="json", fallback=str)  # as it reaches a script
        return
    again = RunSpec.model_validate_json(run.model_dump_json())
    assert again == run
    assert again.workload.spec_hash == run.workload.spec_hash
    assert run.global_batch >= 1
    assert all(shards >= 1 for shards in run.column_shards.values())


def test_the_valid_one_is_valid() -> None:
    session.check(validated(RunSpec, VALID))


@pytest.mark.parametrize("value", [1e39, 1e300, 1e-39, 5e-324])
@pytest.mark.parametrize("field", ["learning_rate", "eps", "scale"])
def test_numbers_that_float32_does_not_hold(field: str, value: float) -> None:
    optimizer = {"name": "momentum_scaled_rowwise_adagrad", field: value}
    with pytest.raises(ConfigError) as refused:
        validated(RunSpec, VALID | {"optimizer": optimizer})
    assert refused.value.report.field == f"optimizer.{field}"
