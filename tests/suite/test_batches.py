from __future__ import annotations

import numpy as np
import pytest
import torch

from suite.batches import RankBatches, to_batch
from suite.data import Samples
from suite.errors import ConfigError
from suite.spec import RunSpec
from tests.helpers.toy_data import EVALUATION, ToySource
from tests.helpers.toy_run import toy_run

CPU = torch.device("cpu")


def batches(run: RunSpec, rank: int) -> RankBatches:
    return RankBatches(run, ToySource(run.workload, 0), rank, CPU)


def test_the_ranks_share_the_global_batch_of_a_step() -> None:
    run = toy_run(layout={"world_size": 4, "replica_groups": 2})  # interleaved: slices of ranks 0 2 1 3
    source = ToySource(run.workload, 0)
    shares = [batches(run, rank).train(2) for rank in (0, 2, 1, 3)]
    whole = source.train(2 * 9, 3 * 9)
    assert np.array_equal(np.concatenate([b.labels.numpy() for b in shares]), whole.labels)
    sizes = [b.labels.numel() for b in shares]
    assert sizes == [2, 2, 2, 3]
    parts = list(zip(shares, sizes, strict=True))
    assert np.array_equal(np.concatenate([b.dense[:size].numpy() for b, size in parts]), whole.dense)
    ids, lengths = whole.sparse["item"]
    assert np.array_equal(np.concatenate([b.sparse["item"].values().numpy() for b in shares]), ids)
    found = [b.sparse["item"].lengths()[:size].numpy() for b, size in parts]
    assert np.array_equal(np.concatenate(found), lengths)
    assert [b.loss_scale for b in shares] == [4 / 9] * 4


def test_every_rank_holds_as_many_samples_some_of_them_empty() -> None:
    run = toy_run(layout={"world_size": 4})
    for batch in (batches(run, rank).train(0) for rank in range(4)):
        padding = slice(batch.labels.numel(), 3)
        assert (batch.dense.shape, batch.sparse.stride()) == ((3, 1), 3)
        assert batch.sparse["item"].lengths()[padding].sum() == 0
        assert batch.dense[padding].abs().sum() == 0


def test_a_rank_may_have_no_sample() -> None:
    run = toy_run(layout={"world_size": 16})
    sizes = [batches(run, rank).train(0).labels.numel() for rank in range(16)]
    assert sum(sizes) == 9
    assert set(sizes) == {0, 1}
    empty = batches(run, sizes.index(0)).train(0)
    assert empty.sparse.stride() == 1
    assert empty.sparse.values().dtype == torch.int64
    assert empty.sparse.lengths().dtype == torch.int32
    assert empty.labels.shape == (0,)


def test_the_evaluation_split_is_covered_once() -> None:
    run = toy_run(layout={"world_size": 4})
    source = ToySource(run.workload, 0)
    seen = []
    for rank in range(4):
        own = batches(run, rank)
        assert own.evaluation_batches == 3  # 25 samples in batches of 9
        for index in range(3):
            start, stop = own.evaluation_range(index)
            seen += range(start, stop)
            expected = source.evaluation(start, stop).labels
            assert np.array_equal(own.evaluation(index).labels.numpy(), expected)
    assert sorted(seen) == list(range(EVALUATION))


def test_keys_are_in_the_order_of_the_workloads_features() -> None:
    def bags(*bags: list[int]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([i for b in bags for i in b], np.int64), np.array([len(b) for b in bags], np.int32)

    samples = Samples(
        dense=np.ones((2, 1), np.float32),
        labels=np.array([0, 1], np.float32),
        sparse={"first": bags([1, 2], []), "second": bags([9], [8, 7]), "unused": bags([], [3])},
    )
    batch = to_batch(samples, ("second", "first"), 0.5, CPU)
    assert batch.sparse.keys() == ["second", "first"]
    assert batch.sparse.values().tolist() == [9, 8, 7, 1, 2]
    assert batch.sparse.lengths().tolist() == [1, 2, 2, 0]
    assert (batch.sparse.values().dtype, batch.sparse.lengths().dtype) == (torch.int64, torch.int32)
    assert (batch.dense.dtype, batch.labels.dtype) == (torch.float32, torch.float32)


def test_samples_that_break_the_contract_are_refused() -> None:
    run = toy_run()
    source = ToySource(run.workload, 0)
    source._rows = 11  # ids up to 10, in a table of 10 rows
    with pytest.raises(ConfigError, match="id 10"):
        RankBatches(run, source, 0, CPU).train(1)
