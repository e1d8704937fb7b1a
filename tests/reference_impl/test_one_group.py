"""2D with one group IS 1D: the same bits as TorchRec's own path, in every loss, weight and moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.helpers.training import LEARNING_RATE, SHARDING, Case, Trained

CASES = [
    Case(t, sharding, optimizer=o, scale=4.0 if o.startswith("momentum") else None)
    for t in (1, 2, 4)
    for sharding in SHARDING
    for o in LEARNING_RATE
]
# With one group both placements number the ranks alike.
CASES += [Case(t, "mixed", placement="contiguous") for t in (1, 2, 4)]


def each_time(case: Case) -> bool:
    """Every sharding type, and every world size and optimizer; the rest of the product is slow."""
    if case.world_size == 2:
        return case.optimizer == "rowwise_adagrad" or case.sharding == "mixed"
    return case.sharding == "mixed" and case.optimizer.startswith("momentum")


@pytest.mark.parametrize(
    "case", [c if each_time(c) else pytest.param(c, marks=pytest.mark.slow) for c in CASES], ids=str
)
def test_one_group_gives_the_bits_of_1d(case: Case, trained: Callable[[Case], list[Trained]]) -> None:
    in_1d = trained(case.but(implementation="baseline_1d", placement="interleaved"))
    for ours, theirs in zip(trained(case), in_1d, strict=True):
        assert ours.losses == theirs.losses
        assert ours.digests == theirs.digests
        assert ours.final.keys() == theirs.final.keys()
        for name, tensor in ours.final.items():
            assert torch.equal(tensor, theirs.final[name]), name
