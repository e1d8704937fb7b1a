from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.distributed as dist
from sklearn.metrics import log_loss, roc_auc_score

from reference_impl.batch import Batch
from suite.batches import RankBatches
from suite.data import Samples
from suite.evaluation import predict
from suite.metrics.quality import quality
from suite.record import QualityRecord
from tests.helpers.distributed import World
from tests.helpers.toy_data import EVALUATION, ToySource
from tests.helpers.toy_implementation import Toy
from tests.helpers.toy_run import toy_run

CPU = torch.device("cpu")
Predicted = tuple[tuple[np.ndarray, np.ndarray] | None, list[int]]


class Wrong(Toy):
    """Scores its padding too."""

    def predict(self, batch: Batch) -> torch.Tensor:
        return torch.ones(len(batch.labels) + 1)


def predict_with_toy(replica_groups: int, evaluation_size: int = EVALUATION) -> Predicted:
    """Job: what this rank's ``predict`` returns, and what it told of its progress."""
    run = toy_run(layout={"world_size": dist.get_world_size(), "replica_groups": replica_groups})
    source = ToySource(run.workload, 0)
    source.size = evaluation_size
    model = Toy(run, CPU)
    model.weight.data.fill_(1.0)
    told: list[int] = []
    return predict(model, RankBatches(run, source, dist.get_rank(), CPU), told.append), told


@pytest.mark.parametrize("replica_groups", [1, 2, 4])
def test_rank_0_gets_the_split_in_its_order(world: Callable[[int], World], replica_groups: int) -> None:
    first, *others = world(4).run(predict_with_toy, replica_groups)
    labels, scores = first[0]
    samples = ToySource(toy_run().workload, 0).evaluation(0, EVALUATION)
    assert np.array_equal(labels, samples.labels)
    # float32 sigmoid, once by torch and once by numpy
    assert np.allclose(scores, 1 / (1 + np.exp(-samples.dense[:, 0])), rtol=1e-6)
    assert [result for result, _ in others] == [None] * 3
    assert [told for _, told in (first, *others)] == [[1, 2, 3]] * 4  # 25 samples in batches of 9


class Noisy(ToySource):
    """Labels that the dense feature does not tell, so that scores in another order have another AUC."""

    def train(self, start: int, stop: int) -> Samples:
        return dataclasses.replace(
            super().train(start, stop), labels=(np.arange(start, stop) * 7 % 5 < 2).astype(np.float32)
        )


def gathered_quality(evaluation_size: int) -> QualityRecord | None:
    """Job: the quality that rank 0 computes from the scores of all ranks."""
    run = toy_run(layout={"world_size": dist.get_world_size()})
    source = Noisy(run.workload, 0)
    source.size = evaluation_size
    model = Toy(run, CPU)
    model.weight.data.fill_(1.0)
    gathered = predict(model, RankBatches(run, source, dist.get_rank(), CPU), lambda _: None)
    return None if gathered is None else quality(*gathered, "test")


@pytest.mark.parametrize(("ranks", "size"), [(3, 10), (4, 2)])
def test_metrics_of_gathered_scores_are_those_of_sklearn(
    world: Callable[[int], World], ranks: int, size: int
) -> None:
    """Also where ranks have unlike shares, or, with fewer samples than ranks, none."""
    found = world(ranks).run(gathered_quality, size)[0]
    samples = Noisy(toy_run().workload, 0).evaluation(0, size)
    scores = 1 / (1 + np.exp(-samples.dense[:, 0].astype(np.float64)))
    assert found.samples == size
    assert found.auc == roc_auc_score(samples.labels, scores)
    # float32 sigmoid, once by torch and once by numpy
    assert found.log_loss == pytest.approx(log_loss(samples.labels, scores), rel=1e-6)


def test_no_evaluation_split(world: Callable[[int], World]) -> None:
    assert world(4).run(predict_with_toy, 1, 0) == [(None, [])] * 4


def test_scores_of_the_wrong_shape_are_refused() -> None:
    run = toy_run(layout={"world_size": 1})
    with pytest.raises(ValueError, match=r"shape \[10\] for 9 samples"):
        predict(Wrong(run, CPU), RankBatches(run, ToySource(run.workload, 0), 0, CPU), lambda _: None)
