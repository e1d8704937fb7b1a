"""What cannot be trained in virtual groups, or judged, is refused before training; honest data is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from suite.catalog import load_workload
from suite.data import DataSource, Samples, open_source
from suite.errors import ConfigError
from suite.quality.checks import check_training, refuse_split, refuse_training_samples
from suite.quality.spec import Training
from tests.helpers.numbered_source import NumberedSource

HERE = "tests.suite.quality.test_checks"
POOL = 16_384


def training(steps: int = 64) -> Training:
    """Of the synthetic smoke workload."""
    return Training(workload=load_workload("smoke"), global_batch=64, steps=steps)


def epochs(pool: np.ndarray, seed: int = 1) -> np.ndarray:
    """Nine of them, each in an order of its own."""
    random = np.random.default_rng(seed)
    return np.concatenate([random.permutation(pool) for _ in range(9)])


class Peeking(DataSource):
    """Evaluates on training samples of another source, from ``shift`` on."""

    def __init__(self, source: DataSource, shift: int) -> None:
        self._source, self._shift = source, shift

    def train(self, start: int, stop: int) -> Samples:
        return self._source.train(start, stop)

    @property
    def evaluation_size(self) -> int:
        return 1024

    def evaluation(self, start: int, stop: int) -> Samples:
        return self._source.train(start + self._shift, stop + self._shift)

    def describe(self) -> dict[str, Any]:
        return {"split": "evaluation"}


def test_training_samples_in_the_evaluation_split_are_refused() -> None:
    peeking = Peeking(open_source(training().workload, 0), shift=500)

    with pytest.raises(ConfigError, match=r"1,024 of 1,024 evaluation samples are among the first 131,072"):
        refuse_training_samples(training(), peeking)


def test_later_samples_of_the_same_stream_are_fair() -> None:
    refuse_training_samples(training(), Peeking(open_source(training().workload, 0), shift=10**6))


@pytest.mark.parametrize("steps", [1, POOL // 20 // 64, POOL // 64, 8 * POOL // 64])
def test_a_leak_is_refused_however_long_the_training(steps: int) -> None:
    """From one step to eight epochs, one of which is 5 % of an epoch."""
    pool = np.arange(POOL)

    with pytest.raises(ConfigError, match="evaluation samples are among the first") as refused:
        refuse_training_samples(training(steps), NumberedSource(pool[:2000], epochs(pool)))
    assert refused.value.report.field == "data.source"


def test_a_stream_that_ends_with_the_training_tells_enough() -> None:
    pool, steps = np.arange(POOL), POOL // 20 // 64
    stream = epochs(pool)[: steps * 64]

    refuse_training_samples(training(steps), NumberedSource(POOL + pool[:2000], stream))
    with pytest.raises(ConfigError, match=f"evaluation samples are among the first {len(stream):,}"):
        refuse_training_samples(training(steps), NumberedSource(pool[:2000], stream))


def test_a_stream_that_ends_before_the_training_is_an_error() -> None:
    with pytest.raises(EOFError):
        refuse_training_samples(training(2), NumberedSource(np.arange(200), np.arange(1000, 1100)))


def test_a_leak_is_refused_where_training_draws_with_replacement() -> None:
    stream = np.random.default_rng(0).integers(0, POOL, 9 * POOL)

    refuse_training_samples(training(), NumberedSource(np.arange(POOL, POOL + 2000), stream))
    with pytest.raises(ConfigError, match="evaluation samples are among the first"):
        refuse_training_samples(training(), NumberedSource(np.arange(2000), stream))


def test_a_leak_of_two_percent_is_refused_and_one_of_half_a_percent_is_not() -> None:
    pool = np.arange(POOL)

    refuse_training_samples(training(), NumberedSource(pool[:2000] + POOL - 10, epochs(pool)))
    with pytest.raises(ConfigError, match=r"\b40 of 2,000 evaluation samples"):
        refuse_training_samples(training(), NumberedSource(pool[:2000] + POOL - 40, epochs(pool)))


def test_what_is_in_the_split_twice_neither_refuses_nor_excuses() -> None:
    """Three of ten samples are all alike, as of users of whom nothing is known."""
    pool = np.arange(2 * POOL)
    pool[np.random.default_rng(0).random(len(pool)) < 0.3] = 0

    refuse_training_samples(training(), NumberedSource(pool[:2000], epochs(pool[2000:])))
    with pytest.raises(ConfigError, match="evaluation samples are among the first"):
        refuse_training_samples(training(), NumberedSource(pool[:2000], epochs(pool)))


@pytest.mark.parametrize("evaluated", [96, 2000, 20_000])
@pytest.mark.parametrize("unlike", [10, 1000, 10**5, 10**6])
@pytest.mark.parametrize("exponent", [0, 1])
def test_samples_that_coincide_by_chance_are_fair(exponent: float, unlike: int, evaluated: int) -> None:
    """In an endless stream, and in epochs; from a Zipf law, and where all samples are alike in frequency."""
    weight = np.arange(1, unlike + 1) ** -float(exponent)
    drawn = np.random.default_rng(0).choice(unlike, evaluated + 9 * POOL, p=weight / weight.sum())
    split, stream = drawn[:evaluated], drawn[evaluated:]

    refuse_training_samples(training(), NumberedSource(split, stream))
    refuse_training_samples(training(), NumberedSource(split, epochs(stream[:POOL])))


@pytest.mark.parametrize("name", ["smoke", "movielens_100k", "planted_clicks", "network_bound", "dlrm_small"])
def test_the_named_workloads_are_fair(name: str) -> None:
    check_training(Training(workload=load_workload(name), global_batch=1024, steps=80))


@pytest.mark.parametrize("split", ["train", "Training", "the training set", "train_split", "train[:10%]"])
def test_a_split_that_says_it_is_the_training_split_is_refused(split: str) -> None:
    source = NumberedSource(np.arange(100), np.arange(1000), split)

    with pytest.raises(ConfigError, match="says that it is"):
        refuse_split(training(), source)


@pytest.mark.parametrize("split", ["test", "not trained on", "constrained", "restraining orders of May"])
def test_other_words_of_a_split_are_fair(split: str) -> None:
    refuse_split(training(), NumberedSource(np.arange(100), np.arange(1000), split))


class OneClass(NumberedSource):
    """Even numbers have the label 0."""

    def __init__(self, *_: object) -> None:
        super().__init__(2 * np.arange(200), np.arange(20_000))


def test_a_split_of_one_class_is_refused_before_training() -> None:
    workload = training().workload
    data = workload.data.model_copy(update={"source": f"{HERE}:OneClass", "options": {}})
    one_class = training().model_copy(update={"workload": workload.model_copy(update={"data": data})})

    with pytest.raises(ConfigError, match="all 200 evaluation samples have the label 0") as refused:
        check_training(one_class)
    assert refused.value.report.field == "data.source"


def test_one_click_at_the_end_of_the_split_makes_two_classes() -> None:
    refuse_split(training(), NumberedSource(np.append(2 * np.arange(200), 1), np.arange(1000)))


def test_a_workload_without_evaluation_split_is_refused() -> None:
    with pytest.raises(ConfigError, match="no evaluation split"):
        refuse_split(training(), NumberedSource(np.arange(0), np.arange(1000)))


@pytest.mark.parametrize(("field", "value"), [("pooling", "none"), ("dtype", "fp16")])
def test_tables_that_virtual_groups_do_not_have_are_refused(field: str, value: str) -> None:
    workload = training().workload
    first = workload.tables[0].model_copy(update={field: value})
    other = workload.model_copy(update={"tables": (first, *workload.tables[1:])})

    with pytest.raises(ConfigError) as refused:
        check_training(training().model_copy(update={"workload": other}))
    assert refused.value.report.field == f"tables.{first.name}.{field}"


def test_an_accumulator_that_virtual_groups_would_drop_is_refused() -> None:
    workload = training().workload
    optimizer = workload.defaults.optimizer.model_copy(update={"initial_accumulator": 0.1})
    defaults = workload.defaults.model_copy(update={"optimizer": optimizer})

    with pytest.raises(ConfigError, match="start their sums of squares at 0") as refused:
        check_training(
            training().model_copy(update={"workload": workload.model_copy(update={"defaults": defaults})})
        )
    assert refused.value.report.field == "defaults.optimizer.initial_accumulator"
    assert refused.value.report.value == 0.1
