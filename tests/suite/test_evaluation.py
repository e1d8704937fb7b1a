from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.distributed as dist

from reference_impl.batch import Batch
from suite.batches import RankBatches
from suite.evaluation import predict
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


def test_no_evaluation_split(world: Callable[[int], World]) -> None:
    assert world(4).run(predict_with_toy, 1, 0) == [(None, [])] * 4


def test_scores_of_the_wrong_shape_are_refused() -> None:
    run = toy_run(layout={"world_size": 1})
    with pytest.raises(ValueError, match=r"shape \[10\] for 9 samples"):
        predict(Wrong(run, CPU), RankBatches(run, ToySource(run.workload, 0), 0, CPU), lambda _: None)
