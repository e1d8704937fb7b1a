"""A step's collectives, counted on four real ranks, equal those worked out by hand.

Sizes. T = 4, G = 8, so B = 2 samples a rank: slice k holds samples 2k and 2k + 1. Sample i's ids, of 5
features on 4 tables of dim 4 (float32: a pooled embedding is 16 bytes; ids int64: 8; lengths int32: 4):

    table      rows   ids of sample i
    a          8      fa:  i
    b          16     fb:  0, 2i
    c          20     fc1: 1, 2, 3      fc2: 19
    d          14     fd:  none

So a rank holds 2 * (1 + 2 + 3 + 1) = 14 ids (112 bytes) and 5 * 2 = 10 lengths (40 bytes).

A step of TorchRec, inside a sharding group of N ranks:

    all_to_all      of split sizes (input_dist): to each of N ranks 3 int64: how many lengths, how many
                    ids, and B; that is N * 24 bytes
    all_to_all      of lengths (input_dist). Table-wise: each to the table's owner. Row-wise: each bag is
                    cut into N, one part for each block of rows, so N times as many lengths
    all_to_all      of ids (input_dist): each to the rank that holds its row
  table-wise:
    all_to_all      of pooled embeddings (output_dist): N * B samples of the features this rank owns
    all_to_all      of their gradients (output_dist_backward): B samples of all 5 features: 160 bytes
  row-wise:
    reduce_scatter  of partial sums (output_dist): N * B samples of all features
    all_gather      of their gradients (output_dist_backward): N times B samples of all features

Where N = 1 TorchRec issues none of them. Over all T ranks DDP all-reduces the dense gradients: bottom
3 x 4 + 4, top 19 x 2 + 2 (19 = 4 + 15 pairs of 6 vectors) and 2 x 1 + 1, 59 floats, 236 bytes. Over the
replica set goes one coalesced all_reduce of weights and moments: 4 + 1 floats, 20 bytes a row.

``wire_bytes`` leaves out what a rank sends to itself. Ranks are named (group, index in group) here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from suite.collectives import CollectiveCounter, GroupNames
from suite.oracle.batch import GlobalBatch
from suite.spec import RunSpec
from tests.helpers.distributed import World
from tests.helpers.training import rank_batch

T, G, DIM = 4, 8, 4
TABLES = {"a": (8, ["fa"]), "b": (16, ["fb"]), "c": (20, ["fc1", "fc2"]), "d": (14, ["fd"])}
BAGS = {
    "fa": [[i] for i in range(G)],
    "fb": [[0, 2 * i] for i in range(G)],
    "fc1": [[1, 2, 3]] * G,
    "fc2": [[19]] * G,
    "fd": [[]] * G,
}

#: (collective, group): (calls, bytes, wire_bytes)
Counts = dict[tuple[str, str], tuple[int, int, int]]


def _counts(
    replica_groups: int, placement: str, sharding: str, steps: int, optimizer: str
) -> tuple[tuple[int, int], list[Counts]]:
    """Job: this rank's (group, index), and what each step counted."""
    from suite.implementations.reference_2d import Reference2D

    run = RunSpec.model_validate(
        {
            "workload": {
                "name": "by_hand",
                "model": {"dense_features": 3, "bottom_mlp": [DIM], "over_mlp": [2, 1]},
                "tables": [
                    {"name": name, "rows": rows, "dim": DIM, "features": features}
                    for name, (rows, features) in TABLES.items()
                ],
                "data": {"source": "unused:Unused"},
                "batch": {"global_size": G, "per_rank": G // T},
            },
            "layout": {
                "world_size": T,
                "replica_groups": replica_groups,
                "placement": placement,
                "sharding": sharding,
            },
            "optimizer": {"name": optimizer, "dense": {"name": "sgd"}},
        }
    )
    layout, rank = run.layout.ranks(), dist.get_rank()
    model = Reference2D(run, torch.device("cpu"))
    batch = rank_batch(GlobalBatch(torch.zeros(G, 3), torch.zeros(G), BAGS), run, rank)
    counted = []
    for _ in range(steps):
        with CollectiveCounter(GroupNames(layout, rank)) as counter:
            model.train_step(batch)
        counted.append({(c.name, c.group): (c.calls, c.bytes, c.wire_bytes) for c in counter.counts()})
    return (layout.group_of(rank), layout.index_in_group(rank)), counted


DENSE: Counts = {("all_reduce", "world"): (1, 236, 236)}

# Largest table first to the least loaded rank: c, b, d, a on indices 0, 1, 2, 3.
TABLE_WISE_1D: dict[tuple[int, int], Counts] = {
    # Splits 4 * 24, lengths 40, ids 112; out: 2 features * 8 samples * 16; back: 160.
    # To itself: splits 24, lengths 2 features * 2 * 4, ids of c 2 * 4 * 8, out 2 * 2 * 16, back 2 * 2 * 16.
    (0, 0): {("all_to_all", "world"): (5, 96 + 40 + 112 + 256 + 160, 72 + 24 + 48 + 192 + 96)},
    # One feature: out 8 * 16. To itself: 24, 2 * 4, ids of b 2 * 2 * 8, out 2 * 16, back 2 * 16.
    (0, 1): {("all_to_all", "world"): (5, 96 + 40 + 112 + 128 + 160, 72 + 32 + 80 + 96 + 128)},
    # d has no ids.
    (0, 2): {("all_to_all", "world"): (5, 96 + 40 + 112 + 128 + 160, 72 + 32 + 112 + 96 + 128)},
    # To itself: ids of a 2 * 1 * 8.
    (0, 3): {("all_to_all", "world"): (5, 96 + 40 + 112 + 128 + 160, 72 + 32 + 96 + 96 + 128)},
}

# Blocks of 2, 4, 5 and 4 rows (d: 4, 4, 4, 2). Splits 4 * 24, lengths 4 * 40, ids 112. Partial sums: 8
# samples * 5 features * 16 = 640, a rank's own block 160. Gradients: 4 * 160.
# Ids to itself, index k with samples 2k and 2k + 1:
#   fa = 2k, 2k + 1: both in block k                                                2 everywhere
#   fb = 0, 4k, 0, 4k + 2: 0 in block 0, the others in block k                      4 for k = 0, else 2
#   fc1 = 1, 2, 3 twice: block 0                                                    6 for k = 0
#   fc2 = 19 twice: block 3                                                         2 for k = 3
ROW_WISE_OUT_1D: Counts = {
    ("reduce_scatter", "world"): (1, 640, 480),
    ("all_gather", "world"): (1, 640, 480),
}
ROW_WISE_1D: dict[tuple[int, int], Counts] = {
    (0, k): {("all_to_all", "world"): (3, 96 + 160 + 112, 72 + 120 + 112 - 8 * ids), **ROW_WISE_OUT_1D}
    for k, ids in enumerate((2 + 4 + 6, 2 + 2, 2 + 2, 2 + 2 + 2))
}

# c and a (28 rows) on index 0, b and d (30 rows) on index 1; the same in both groups.
TABLE_WISE_2 = {
    # Splits 2 * 24, lengths 40, ids 112; out: 3 features * 4 samples * 16; back: 160.
    # To itself: splits 24, lengths 3 * 2 * 4, ids of c and a 2 * 5 * 8, out 3 * 2 * 16, back 3 * 2 * 16.
    0: {
        ("all_to_all", "sharding"): (5, 48 + 40 + 112 + 192 + 160, 24 + 16 + 32 + 96 + 64),
        ("all_reduce", "replica"): (1, 28 * 20, 28 * 20),
    },
    # Two features: out 2 * 4 * 16. To itself: 24, 2 * 2 * 4, ids of b 2 * 2 * 8, 2 * 2 * 16, 2 * 2 * 16.
    1: {
        ("all_to_all", "sharding"): (5, 48 + 40 + 112 + 128 + 160, 24 + 24 + 80 + 64 + 96),
        ("all_reduce", "replica"): (1, 30 * 20, 30 * 20),
    },
}

# Blocks of 4, 8, 10 and 7 rows: 29 rows a rank. Splits 2 * 24, lengths 2 * 40, ids 112. Partial sums: 4
# samples * 5 features * 16 = 320, own block 160. Gradients: 2 * 160.
# Ids to itself, group g and index j, samples s = 4g + 2j and s + 1:
#   fa = s, s + 1: block g                                                          2 where g = j
#   fb = 0, 2s, 0, 2s + 2: 0 in block 0; 8g + 4j (+ 2) in block g    2 where j = 0, 2 more where g = j
#   fc1: block 0                                                                    6 where j = 0
#   fc2: block 1                                                                    2 where j = 1
ROW_WISE_2_OWN_IDS = {(0, 0): 2 + 4 + 6, (0, 1): 2, (1, 0): 2 + 6, (1, 1): 2 + 2 + 2}
ROW_WISE_2: dict[tuple[int, int], Counts] = {
    at: {
        ("all_to_all", "sharding"): (3, 48 + 80 + 112, 24 + 40 + 112 - 8 * ids),
        ("reduce_scatter", "sharding"): (1, 320, 160),
        ("all_gather", "sharding"): (1, 320, 160),
        ("all_reduce", "replica"): (1, 29 * 20, 29 * 20),
    }
    for at, ids in ROW_WISE_2_OWN_IDS.items()
}

# Every rank holds all 58 rows, and looks all its ids up itself.
ALONE: Counts = {("all_reduce", "replica"): (1, 58 * 20, 58 * 20)}

BY_HAND: dict[tuple[int, str], dict[tuple[int, int], Counts]] = {
    (1, "table_wise"): TABLE_WISE_1D,
    (1, "row_wise"): ROW_WISE_1D,
    (2, "table_wise"): {(group, index): TABLE_WISE_2[index] for group in (0, 1) for index in (0, 1)},
    (2, "row_wise"): ROW_WISE_2,
    (4, "table_wise"): {(group, 0): ALONE for group in range(4)},
    (4, "row_wise"): {(group, 0): ALONE for group in range(4)},
}

#: DDP settles in its first three steps; this is the first that is like all later ones.
STEADY = 3


@pytest.mark.parametrize("placement", ["interleaved", "contiguous"])
@pytest.mark.parametrize(("groups", "sharding"), list(BY_HAND))
def test_a_steps_collectives_are_those_worked_out_by_hand(
    groups: int, sharding: str, placement: str, world: Callable[[int], World]
) -> None:
    ranks = world(T).run(_counts, groups, placement, sharding, STEADY + 1, "rowwise_adagrad")
    assert {at: counted[STEADY] for at, counted in ranks} == {
        at: DENSE | counts for at, counts in BY_HAND[groups, sharding].items()
    }


@pytest.mark.parametrize("groups", [1, 2])
def test_what_ddp_adds_to_the_first_three_steps(groups: int, world: Callable[[int], World]) -> None:
    """Its static graph: step 0 all-reduces which of the 6 dense parameters were used (6 int32); before
    step 2 rank 0 broadcasts the order of the parameters and their number (7 int32) and the bucket's size
    (1 int32), 32 bytes to each of 4 ranks."""
    ranks = world(T).run(_counts, groups, "contiguous", "table_wise", STEADY + 2, "rowwise_adagrad")
    for rank, (_, steps) in enumerate(ranks):
        steady = steps[STEADY]
        assert steps[0] == steady | {("all_reduce", "world"): (2, 236 + 24, 236 + 24)}
        assert steps[1] == steady
        sent = (4 * 32, 3 * 32) if rank == 0 else (0, 0)
        assert steps[2] == steady | {("broadcast", "world"): (2, *sent)}
        assert steps[4] == steady


def test_sgd_has_no_moments_to_average(world: Callable[[int], World]) -> None:
    ranks = world(T).run(_counts, 4, "interleaved", "table_wise", 1, "sgd")
    assert [counted[0]["all_reduce", "replica"] for _, counted in ranks] == [(1, 58 * 16, 58 * 16)] * T
