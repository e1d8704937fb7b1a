"""Evaluation on what was trained on is refused; honest data is not."""

from __future__ import annotations

from typing import Any

import pytest

from suite.catalog import load_workload
from suite.data import DataSource, Samples, open_source
from suite.errors import ConfigError
from suite.quality.checks import check_training, refuse_training_samples
from suite.quality.spec import Training


def training() -> Training:
    """Of the synthetic smoke workload."""
    return Training(workload=load_workload("smoke"), global_batch=64, steps=64)


class Peeking(DataSource):
    """Evaluates on the first training samples of another source."""

    def __init__(self, source: DataSource, split: str = "evaluation", shift: int = 0) -> None:
        self._source, self._split, self._shift = source, split, shift

    def train(self, start: int, stop: int) -> Samples:
        """As the other."""
        return self._source.train(start, stop)

    @property
    def evaluation_size(self) -> int:
        """Samples."""
        return 1024

    def evaluation(self, start: int, stop: int) -> Samples:
        """Training samples."""
        return self._source.train(start + self._shift, stop + self._shift)

    def describe(self) -> dict[str, Any]:
        """Its split."""
        return {"split": self._split}


def test_training_samples_in_the_evaluation_split_are_refused() -> None:
    peeking = Peeking(open_source(training().workload, 0), shift=500)

    with pytest.raises(ConfigError, match=r"1,024 of 1,024 evaluation samples are in the training stream"):
        refuse_training_samples(training(), peeking)


def test_a_split_that_says_it_is_the_training_split_is_refused() -> None:
    peeking = Peeking(open_source(training().workload, 0), split="train", shift=10**6)

    with pytest.raises(ConfigError, match="says that it is 'train'"):
        refuse_training_samples(training(), peeking)


def test_later_samples_of_the_same_stream_are_fair() -> None:
    refuse_training_samples(training(), Peeking(open_source(training().workload, 0), shift=10**6))


@pytest.mark.parametrize("name", ["smoke", "movielens_100k"])
def test_the_named_workloads_are_fair(name: str) -> None:
    workload = load_workload(name)
    refuse_training_samples(
        Training(workload=workload, global_batch=1024, steps=80), open_source(workload, 0)
    )


@pytest.mark.parametrize(("field", "value"), [("pooling", "none"), ("dtype", "fp16")])
def test_tables_that_virtual_groups_do_not_have_are_refused(field: str, value: str) -> None:
    workload = training().workload
    first = workload.tables[0].model_copy(update={field: value})
    other = workload.model_copy(update={"tables": (first, *workload.tables[1:])})

    with pytest.raises(ConfigError) as refused:
        check_training(training().model_copy(update={"workload": other}))
    assert refused.value.report.field == f"tables.{first.name}.{field}"
