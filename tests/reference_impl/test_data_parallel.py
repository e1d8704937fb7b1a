"""Data-parallel tables are trained as any other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType

from reference_impl.data_parallel import unfused
from reference_impl.errors import InvalidConfiguration
from reference_impl.optimizer import EmbeddingOptimizer
from tests.helpers.training import Case, Trained


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_in_2d_they_equal_table_wise_ones(groups: int, trained: Callable[[Case], list[Trained]]) -> None:
    """1e-5 of the largest value: other orders of the same float32 sums."""
    whole, split = (trained(Case(4, s, replica_groups=groups)) for s in ("data_parallel", "table_wise"))
    for name, tensor in split[0].final.items():
        assert float((whole[0].final[name] - tensor).abs().max() / tensor.abs().max()) <= 1e-5, name


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_copies_of_a_group_stay_equal_to_the_last_bit(
    groups: int, trained: Callable[[Case], list[Trained]]
) -> None:
    """Also where four copies are averaged, whose mean depends on the order of the sum."""
    ranks = trained(Case(4, "data_parallel", replica_groups=groups))
    assert all(rank.ended == ranks[0].ended for rank in ranks)


def test_an_optimizer_without_counterpart_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = EmbeddingOptimizer("rowwise_adagrad", 0.1, 1e-8)
    only_fused = {"optimizer": EmbOptimType.EMAINPLACE_ROWWISE_ADAGRAD, "learning_rate": 0.1}
    monkeypatch.setattr(EmbeddingOptimizer, "fused_params", lambda self: only_fused)
    with pytest.raises(InvalidConfiguration, match="no counterpart for data-parallel tables") as error:
        unfused(optimizer, [torch.zeros(2, 4)])
    assert error.value.field == "optimizer.name"
