"""A step on real ranks: 2D learns, on CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from tests.helpers.distributed import World
from tests.helpers.training import Case, global_batch, rank_batch
from tests.reference_impl.test_unpooled import Unpooled
from tests.reference_impl.test_unpooled import samples as tokens_batch

LEARNS = Case(4, "mixed", replica_groups=2, learning_rate=0.2)


def _overfit(case: Case, steps: int) -> tuple[list[float], torch.Tensor]:
    """Job: takes the same global batch again and again; returns local losses and what it then predicts."""
    from suite.implementation import implementation_class

    run = case.run_spec()
    model = implementation_class(case.implementation)(run, torch.device("cpu"))
    batch = rank_batch(global_batch(0, case.global_batch), run, dist.get_rank())
    return [float(model.train_step(batch)) for _ in range(steps)], model.predict(batch)


@pytest.mark.parametrize("placement", ["interleaved", "contiguous"])
def test_2d_trains_on_cpu_with_four_ranks_in_two_groups(
    placement: str, world: Callable[[int], World]
) -> None:
    """TorchRec's own 2D refuses CPU; this one is for a laptop."""
    ranks = world(4).run(_overfit, LEARNS.but(placement=placement), 30)
    losses = torch.tensor([losses for losses, _ in ranks]).mean(0)
    # It starts at log 2 = 0.69; one process ends at 0.012.
    assert losses[0] > 0.6
    assert losses[-1] < 0.1


def test_predictions_are_of_the_ranks_own_samples_in_their_order(world: Callable[[int], World]) -> None:
    """13 samples on 4 ranks: padding is not predicted on, and an overfitted model knows its labels."""
    ranks = world(4).run(_overfit, LEARNS.but(global_batch=13), 30)
    # Slices 0 to 3 of 13 samples; interleaved ranks 0 1 2 3 take slices 0 2 1 3.
    sizes = [len(scores) for _, scores in ranks]
    assert sizes == [3, 3, 3, 4]
    scores = torch.cat([ranks[rank][1] for rank in (0, 2, 1, 3)])
    assert torch.equal(scores > 0.5, global_batch(0, 13).labels > 0.5)


def _predict_few(case: Case | Unpooled) -> tuple[torch.Tensor, torch.Tensor]:
    """Job: what this rank predicts of two samples for each rank, and of the first three of those."""
    from suite.implementation import implementation_class

    run = case.run_spec()
    model = implementation_class(case.implementation)(run, torch.device("cpu"))
    many = (global_batch if isinstance(case, Case) else tokens_batch)(0, 2 * case.world_size)
    whole, few = (model.predict(rank_batch(batch, run, dist.get_rank())) for batch in (many, many.part(0, 3)))
    return whole, few


@pytest.mark.parametrize(
    "case",
    [
        *(Case(4, sharding, replica_groups=2) for sharding in ("table_wise", "row_wise", "column_wise")),
        *(Unpooled(4, sharding, replica_groups=2) for sharding in ("table_wise", "row_wise", "column_wise")),
    ],
    ids=str,
)
def test_a_rank_may_have_nothing_to_predict(case: Case | Unpooled, world: Callable[[int], World]) -> None:
    """Three samples on four ranks: the last share of an evaluation split (torchrec issue 2773)."""
    ranks = world(4).run(_predict_few, case)
    # Interleaved ranks 0 1 2 3 take slices 0 2 1 3.
    whole, few = (torch.cat([ranks[rank][i] for rank in (0, 2, 1, 3)]) for i in (0, 1))
    assert sorted(len(part) for _, part in ranks) == [0, 1, 1, 1]
    assert torch.allclose(few, whole[:3], rtol=1e-6)  # float32, in products of other shapes
    assert len(set(whole.tolist())) == 8
