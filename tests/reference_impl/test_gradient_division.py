"""By what the gradient of a table is divided: hand arithmetic with a constant gradient of 0.5.

SGD at lr 1, one sample a rank (G = T). A rank's local loss is its sample's times T / G = 1, so each of the
N samples of a group gives the rows it looks up a gradient of 0.5; TorchRec sums them over the group and
divides by N.

    row 0, looked up by all samples:     its group's gradient is N * 0.5 / N = 0.5 in every group
    row 1 + i, by sample i alone:        0.5 / N in the one group that has the sample, 0 in the others;
                                         averaging the M groups leaves 0.5 / N / M = 0.5 / T

So after the sync each row has moved by the gradient of the global batch's mean loss, at every T and M. A
division by T instead of N would show in row 0: 0.5 / M.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reference_impl.layout import PLACEMENTS
from tests.helpers.distributed import World
from tests.reference_impl.one_row import DIM, ROWS, OneRow, first_step

CASES = [
    OneRow("all_ones", t, m, placement, sharding)
    for t in (1, 2, 4)
    for m in (1, 2, 4)
    if t % m == 0
    for placement in (PLACEMENTS if m > 1 else PLACEMENTS[:1])
    for sharding in ("table_wise", "row_wise")
]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda c: f"T{c.world_size}-M{c.replica_groups}-{c.placement}-{c.sharding}"
)
def test_constant_gradient_against_hand_arithmetic(case: OneRow, world: Callable[[int], World]) -> None:
    t, m = case.world_size, case.replica_groups
    n = t // m
    for rank, step in enumerate(world(t).run(first_step, case)):
        group = rank % m if case.placement == "interleaved" else rank // n
        group_samples = range(group * n, (group + 1) * n)
        before = [-0.5] + [-0.5 / n if i in group_samples else 0.0 for i in range(t)]
        after = [-0.5] + [-0.5 / t] * t
        untouched = [0.0] * (ROWS - 1 - t)
        # Powers of two: exact.
        assert step.weights_before_sync == [[w] * DIM for w in before + untouched]
        assert step.weights_after_sync == [[w] * DIM for w in after + untouched]
