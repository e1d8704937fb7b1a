"""Padding a rank's share of the batch."""

from __future__ import annotations

import pytest
import torch
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from reference_impl.batch import Batch
from reference_impl.errors import InvalidConfiguration


def _batch() -> Batch:
    sparse = KeyedJaggedTensor(
        ["a", "b"], torch.tensor([5, 6, 7]), lengths=torch.tensor([2, 0, 0, 1], dtype=torch.int32)
    )
    return Batch(torch.ones(2, 3), sparse, torch.tensor([0.0, 1.0]), 2.0)


def test_empty_samples_follow_the_real_ones() -> None:
    padded = _batch().padded_to(4)
    assert padded.dense.tolist() == [[1] * 3, [1] * 3, [0] * 3, [0] * 3]
    # Feature a: bags [5 6] [] then two empty ones; feature b: [] [7] then two empty ones.
    assert padded.sparse.keys() == ["a", "b"]
    assert padded.sparse.lengths().tolist() == [2, 0, 0, 0, 0, 1, 0, 0]
    assert padded.sparse.lengths().dtype == torch.int32
    assert padded.sparse.values().tolist() == [5, 6, 7]


def test_labels_and_loss_scale_are_of_the_real_samples() -> None:
    padded = _batch().padded_to(4)
    assert padded.labels.tolist() == [0, 1]
    assert padded.loss_scale == 2.0


def test_a_batch_of_none_can_be_padded() -> None:
    sparse = KeyedJaggedTensor(
        ["a", "b"], torch.empty(0, dtype=torch.int64), lengths=torch.empty(0, dtype=torch.int32)
    )
    padded = Batch(torch.empty(0, 3), sparse, torch.empty(0), 4.0).padded_to(1)
    assert padded.dense.tolist() == [[0] * 3]
    assert padded.sparse.lengths().tolist() == [0, 0]
    assert padded.sparse.values().dtype == torch.int64
    assert padded.labels.numel() == 0


@pytest.mark.parametrize("size", [0, 2])
@pytest.mark.parametrize(
    ("values", "lengths", "field"),
    [
        (torch.int32, torch.int32, "batch.sparse.values"),
        (torch.float32, torch.int32, "batch.sparse.values"),
        (torch.int64, torch.int64, "batch.sparse.lengths"),
    ],
)
def test_another_dtype_is_refused_on_its_rank_also_of_no_ids(
    size: int, values: torch.dtype, lengths: torch.dtype, field: str
) -> None:
    sparse = KeyedJaggedTensor(
        ["a"], torch.zeros(size, dtype=values), lengths=torch.ones(size, dtype=lengths)
    )
    with pytest.raises(InvalidConfiguration) as caught:
        Batch(torch.ones(size, 3), sparse, torch.zeros(size), 1.0)
    assert caught.value.field == field


def test_a_full_batch_is_left_alone() -> None:
    batch = _batch()
    assert batch.padded_to(2) is batch
