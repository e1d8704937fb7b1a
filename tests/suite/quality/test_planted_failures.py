"""Failures planted into real trainings on MovieLens 100K, and what ``sparse2d parity`` says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from suite.catalog import load_workload
from suite.data import Samples
from suite.spec import WorkloadSpec
from tests.suite.cli.conftest import cli  # noqa: F401 - a fixture
from workloads.data.counter_random import key, uniform
from workloads.data.movielens import MovieLens

HERE = "tests.suite.quality.test_planted_failures"
pytestmark = pytest.mark.slow


class Guessing(MovieLens):
    """MovieLens with labels that nothing tells: AUC 0.5 is all that can be had."""

    def _samples(self, rows: np.ndarray) -> Samples:
        found = super()._samples(rows)
        labels = (uniform(key("labels"), rows) < 0.5).astype(np.float32)
        return Samples(dense=found.dense, labels=labels, sparse=found.sparse)


class Peeking(MovieLens):
    """MovieLens that evaluates on a quarter of the samples that are trained on."""

    def evaluation(self, start: int, stop: int) -> Samples:
        return self._samples(self._train_rows[start:stop])


def _from(source: str) -> WorkloadSpec:
    workload = load_workload("movielens_100k")
    return workload.model_copy(
        update={"data": workload.data.model_copy(update={"source": f"{HERE}:{source}"})}
    )


def guessing() -> WorkloadSpec:
    return _from("Guessing")


def peeking() -> WorkloadSpec:
    return _from("Peeking")


def parity(run: Any, workload: str, *options: str) -> tuple[int, dict[str, Any]]:
    done = run("parity", workload, *options, "--curve-points", "1", "--json")
    return done.code, done.document


def test_plain_adagrad_in_64_groups_is_worse(cli: Any) -> None:  # noqa: F811
    code, found = parity(
        cli, "movielens_100k", "--replica-groups", "64", "--optimizer", "rowwise_adagrad", "--seeds", "4"
    )
    # The loss seen over ten seeds is 0.0133 [0.0122, 0.0144]: ten margins, so that four seeds tell it.
    assert (code, found["verdict"]) == (1, "worse")
    assert found["difference"]["mean"] == pytest.approx(-0.0133, abs=0.004)


def test_two_sides_that_guess_are_not_at_parity(cli: Any) -> None:  # noqa: F811
    code, found = parity(cli, f"{HERE}:guessing", "--seeds", "4")
    assert (code, found["verdict"]) == (1, "inconclusive")
    assert found["arms"]["baseline"]["auc"]["mean"] == pytest.approx(0.5, abs=0.01)
    assert "nothing was learnt" in found["checks"][0]["reason"]


def test_equal_arms_with_too_few_seeds_are_inconclusive(cli: Any) -> None:  # noqa: F811
    code, found = parity(cli, "movielens_100k", "--seeds", "2")
    assert (code, found["verdict"]) == (1, "inconclusive")
    assert found["checks"][0]["seeds_needed"] > 2


@pytest.mark.parametrize("steps", ["234", "20", "1"])
def test_evaluation_on_training_samples_is_refused(cli: Any, steps: str) -> None:  # noqa: F811
    """Also where the training is too short to meet many of them."""
    code, found = parity(cli, f"{HERE}:peeking", "--seeds", "2", "--steps", steps)
    assert (code, found["error"]["field"]) == (2, "data.source")
    assert "20,000 evaluation samples are among the first" in found["error"]["message"]
