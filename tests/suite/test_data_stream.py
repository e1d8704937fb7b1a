from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from suite.data import DataSource, Samples, open_source, source_class
from suite.errors import ConfigError
from suite.spec import WorkloadSpec
from tests.helpers.workloads import rows_of, tiny_workload


def numbered(first: int, count: int) -> Samples:
    """Samples that say which they are: dense[:, 0] is the number, and number % 3 tags."""
    number = np.arange(first, first + count)
    lengths = (number % 3).astype(np.int32)
    return Samples(
        dense=np.stack([number, np.zeros(count)], axis=1).astype(np.float32),
        labels=(number % 2).astype(np.float32),
        sparse={
            "user": (number % 10, np.ones(count, np.int32)),
            "tags": (np.repeat(number % 5, lengths), lengths),
        },
    )


def uneven(workload: WorkloadSpec, seed: int) -> Iterator[Samples]:
    """100 samples, numbered from 1,000 * seed, in blocks of 1, 2, 3, ..."""
    first, size = 0, 1
    while first < 100:
        size = min(size, 100 - first)
        yield numbered(1_000 * seed + first, size)
        first, size = first + size, size + 1


def as_list(workload: WorkloadSpec, seed: int) -> list[Samples]:
    return [numbered(0, 10)]


def wrong_later(workload: WorkloadSpec, seed: int) -> Iterator[Samples]:
    yield numbered(0, 10)
    yield Samples(np.zeros((1, 2), np.float32), np.zeros(1, np.float32), {})


def raises(workload: WorkloadSpec, seed: int) -> Iterable[Samples]:
    raise KeyError("column")


def no_arguments() -> Iterable[Samples]:
    return []


def nothing(workload: WorkloadSpec, seed: int) -> None:
    return None


def empty(workload: WorkloadSpec, seed: int) -> list[Samples]:
    return []


def empty_blocks(workload: WorkloadSpec, seed: int) -> Iterator[Samples]:
    while True:
        yield numbered(0, 0)


def numbers(workload: WorkloadSpec, seed: int) -> Iterator[Any]:
    yield 3


def workload_of(function: str, **options: Any) -> WorkloadSpec:
    return tiny_workload(f"{__name__}:{function}", **options)


def opened(function: str, seed: int = 0, **options: Any) -> DataSource:
    return open_source(workload_of(function, **options), seed)


@pytest.mark.parametrize("size", [1, 7, 40])
def test_slices_in_order_are_the_stream(size: int) -> None:
    source = opened("uneven", seed=2)
    found = [
        row for start in range(0, 80, size) for row in rows_of(source.train(start, min(start + size, 80)))
    ]
    assert found == rows_of(numbered(2_000, 80))


def test_every_rank_keeps_its_own_slices() -> None:
    # Steps of 12 samples over three ranks, the second of which takes none.
    parts = ((0, 5), (5, 5), (5, 12))
    ranks = [opened("uneven") for _ in parts]
    for step in range(8):
        for source, (start, stop) in zip(ranks, parts, strict=True):
            found = source.train(step * 12 + start, step * 12 + stop)
            assert rows_of(found) == rows_of(numbered(0, 96))[step * 12 + start : step * 12 + stop]


def test_an_empty_slice_has_every_feature() -> None:
    none = opened("uneven").train(5, 5)
    assert none.dense.shape == (0, 2)
    assert {feature: (len(i), len(n)) for feature, (i, n) in none.sparse.items()} == {
        "user": (0, 0),
        "tags": (0, 0),
    }


def test_held_out_samples_are_not_trained_on() -> None:
    source = opened("uneven", evaluation_samples=30)
    assert source.evaluation_size == 30
    assert rows_of(source.train(0, 70)) == rows_of(numbered(30, 70))
    assert rows_of(source.evaluation(10, 30)) == rows_of(numbered(10, 20))
    assert rows_of(source.evaluation(0, 30)) == rows_of(numbered(0, 30))
    assert source.describe()["base_rate"] == 0.5


def test_nothing_is_held_out_by_default() -> None:
    source = opened("uneven")
    assert source.evaluation_size == 0
    assert source.describe()["base_rate"] is None


def test_a_list_is_a_stream_too() -> None:
    assert rows_of(opened("as_list").train(2, 9)) == rows_of(numbered(2, 7))


def test_going_back_is_an_error() -> None:
    source = opened("uneven")
    source.train(10, 20)
    with pytest.raises(ValueError, match="only goes forward: 19 was asked for after 20"):
        source.train(19, 25)


def test_a_stream_that_ends_too_soon_says_where() -> None:
    source = opened("uneven")
    source.train(0, 100)
    with pytest.raises(ConfigError, match="ends after 100 samples"):
        source.train(100, 101)


def test_a_wrong_block_is_found_when_it_is_reached() -> None:
    source = opened("wrong_later")
    source.train(0, 10)
    with pytest.raises(ConfigError, match="no feature 'user'"):
        source.train(10, 11)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("raises", "it raised KeyError: 'column'"),
        ("no_arguments", "it raised TypeError"),
        ("nothing", "'NoneType' object is not iterable"),
        ("empty", "ends after 0 samples"),
        ("empty_blocks", "a block of no samples"),
        ("numbers", "it gives int, not Samples"),
    ],
)
def test_a_wrong_function_is_refused_before_the_launch(function: str, text: str) -> None:
    workload = workload_of(function)
    with pytest.raises(ConfigError) as caught:
        source_class(workload).check(workload)
    assert caught.value.report.field == "data.source"
    assert text in caught.value.report.message


@pytest.mark.parametrize("value", [-1, 2.5, "all", True, 10**12])
def test_a_wrong_number_of_evaluation_samples_is_refused(value: Any) -> None:
    workload = workload_of("uneven", evaluation_samples=value)
    with pytest.raises(ConfigError) as caught:
        source_class(workload).check(workload)
    assert caught.value.report.field == "data.options.evaluation_samples"


@pytest.mark.parametrize("name", ["evaluatoin_samples", "eval_samples", "evaluation_sample"])
def test_a_misspelt_number_of_evaluation_samples_is_refused(name: str) -> None:
    workload = workload_of("uneven", **{name: 30})
    with pytest.raises(ConfigError) as caught:
        source_class(workload).check(workload)
    assert caught.value.report.field == f"data.options.{name}"
    assert "evaluation_samples" in str(caught.value.report.remedy)


@pytest.mark.parametrize("options", [{"train_samples": 3}, {"eval_samples": 3, "evaluation_samples": 30}])
def test_other_options_are_the_functions_own(options: dict[str, int]) -> None:
    workload = workload_of("uneven", **options)
    source_class(workload).check(workload)


def test_more_evaluation_samples_than_the_stream_has_are_refused_before_the_launch() -> None:
    workload = workload_of("uneven", evaluation_samples=101)
    with pytest.raises(ConfigError, match="ends after 100 samples"):
        source_class(workload).check(workload)


def test_fingerprint_follows_the_data_and_not_the_seed() -> None:
    fingerprint = opened("uneven").describe()["fingerprint"]
    assert opened("uneven", seed=5).describe()["fingerprint"] == fingerprint
    assert opened("as_list").describe()["fingerprint"] != fingerprint
