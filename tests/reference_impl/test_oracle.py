"""The implementations against the oracle, and replicas against each other.

Tolerance, for each tensor: max|a - b| <= 1e-5 * max|b| after ten steps. Both sides follow the same
formulae, the implementation in float32, the oracle in float64. The worst seen is float32 rounding: 5e-7 in
losses and weights, 3.7e-6 in second moments (squares of gradients that nearly cancel). Element by element
no such bound holds: a sum that nearly cancels has a large relative error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from tests.helpers.training import (
    ADAGRAD_LEARNING_RATE,
    CROSS,
    DENSE_LEARNING_RATE,
    FEATURES,
    LEARNING_RATE,
    SHARDING,
    SPECIAL_SHARDING,
    TABLES,
    Case,
    Trained,
    global_batch,
)
from tests.oracle.dlrm import Cross, Layer
from tests.oracle.optimizers import DenseOptimizer, TableOptimizer
from tests.oracle.training import Oracle

TOLERANCE = 1e-5
OPTIMIZERS = tuple(LEARNING_RATE)


def _layouts(world_size: int) -> list[dict]:
    """1D by TorchRec's own path and by ours; 2D of 2 and 4 groups in both placements."""
    layouts: list[dict] = [{"implementation": "baseline_1d"}, {"replica_groups": 1}]
    for groups in (2, 4):
        if world_size % groups == 0:
            layouts += [{"replica_groups": groups, "placement": p} for p in ("interleaved", "contiguous")]
    return layouts


MATRIX = [
    # With M = 1 the default c = M would make momentum scaling plain AdaGrad: there c is 4.
    Case(t, sharding, optimizer=o, scale=4.0 if o.startswith("momentum") and m == 1 else None, **layout)
    for t in (1, 2, 4)
    for layout in _layouts(t)
    for m in [layout.get("replica_groups", 1)]
    for sharding in SHARDING
    for o in OPTIMIZERS
]
TWO_GROUPS = Case(4, "mixed", replica_groups=2)
SPECIAL = [
    # Mean pooling in all mixtures; "mixed" has a table-wise mean beside row-wise sums.
    *(TWO_GROUPS.but(sharding=s) for s in SPECIAL_SHARDING if "mean" in s),
    TWO_GROUPS.but(sharding="row_mean_beside_tables", replica_groups=1, implementation="baseline_1d"),
    # A c that is not M.
    TWO_GROUPS.but(optimizer="momentum_scaled_rowwise_adagrad", scale=3.0),
    # Both column shards of a table on one rank.
    TWO_GROUPS.but(sharding="column_shards_together"),
    # T does not divide G; fewer samples than ranks, so that some ranks have none.
    TWO_GROUPS.but(global_batch=13),
    TWO_GROUPS.but(global_batch=13, sharding="table_wise", replica_groups=1),
    TWO_GROUPS.but(global_batch=3, placement="contiguous"),
    TWO_GROUPS.but(global_batch=3, sharding="row_wise", replica_groups=4),
    # One sample: three of four ranks have none, and so has a whole group.
    *(TWO_GROUPS.but(global_batch=1, sharding=s) for s in ("table_wise", "row_wise", "all_types")),
    TWO_GROUPS.but(global_batch=1, sharding="all_types", replica_groups=1, implementation="baseline_1d"),
    TWO_GROUPS.but(global_batch=2, sharding="mixed", replica_groups=4),
    # AdaGrad for the dense layers too.
    TWO_GROUPS.but(dense_optimizer="adagrad"),
    TWO_GROUPS.but(dense_optimizer="adagrad", replica_groups=1, implementation="baseline_1d"),
]
#: Averaging every third of ten steps leaves one over, which ends in an early sync.
SCHEDULES = [
    Case(t, "mixed", replica_groups=m, optimizer=o, sync_interval=k, sync_optimizer_state=state)
    for t, m in ((2, 2), (4, 2), (4, 4))
    for k, state in ((3, "immediate"), (1, "delayed"), (3, "delayed"))
    for o in OPTIMIZERS
    if not (o == "sgd" and state == "delayed")
]
SCHEDULES.append(TWO_GROUPS.but(sync_interval=3, sync_optimizer_state="delayed", placement="contiguous"))
ADAGRAD = [
    # A moment an element, in every sharding type and layout; and accumulators that start above zero.
    *(Case(2, sharding, optimizer="adagrad", replica_groups=2) for sharding in SHARDING),
    Case(2, "all_types", optimizer="adagrad"),
    TWO_GROUPS.but(optimizer="adagrad"),
    TWO_GROUPS.but(optimizer="adagrad", sync_interval=3, sync_optimizer_state="delayed"),
    Case(2, "all_types", optimizer="adagrad", implementation="baseline_1d", initial_accumulator=0.02),
    *(
        Case(4, "all_types", replica_groups=2, optimizer=o, initial_accumulator=0.02)
        for o in ("rowwise_adagrad", "momentum_scaled_rowwise_adagrad")
    ),
    TWO_GROUPS.but(
        optimizer="adagrad", initial_accumulator=0.02, sync_interval=3, sync_optimizer_state="delayed"
    ),
]
DCN = [
    Case(2, "all_types", crossed=True, implementation="baseline_1d"),
    TWO_GROUPS.but(crossed=True, optimizer="adagrad"),
]
CASES = MATRIX + SPECIAL + SCHEDULES + ADAGRAD + DCN


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """The oracle's tensors are tiny: threads would only fight the ranks for cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ten_steps_equal_the_oracle(case: Case, trained: Callable[[Case], list[Trained]]) -> None:
    ranks = trained(case)
    oracle = _oracle(case, ranks[0].initial)
    losses = [oracle.step(global_batch(step, case.global_batch)) for step in range(case.steps)]
    oracle.finish()

    # A local loss carries T / G, so the mean over the T ranks is the global batch's mean loss.
    measured = torch.tensor([r.losses for r in ranks], dtype=torch.float64).mean(0)
    assert _distance(measured, torch.tensor(losses, dtype=torch.float64)) <= TOLERANCE
    expected = _named(oracle, with_moments=case.optimizer != "sgd")
    for rank in ranks:
        assert rank.final.keys() == expected.keys()
        apart = {name: _distance(rank.final[name].double(), expected[name]) for name in expected}
        assert max(apart.values()) <= TOLERANCE, apart


@pytest.mark.parametrize("case", [c for c in CASES if c.replica_groups > 1], ids=str)
def test_replicas_are_bit_equal_right_after_every_sync_and_then_alone(
    case: Case, trained: Callable[[Case], list[Trained]]
) -> None:
    ranks = trained(case)
    m, n = case.replica_groups, case.world_size // case.replica_groups
    replicas = {
        # Neighbours hold the same shard; or ranks that are N apart do.
        "interleaved": [range(i * m, (i + 1) * m) for i in range(n)],
        "contiguous": [range(i, case.world_size, n) for i in range(n)],
    }[case.placement]
    for members in replicas:
        for step in range(case.steps):
            first, *others = (ranks[r].digests[step] for r in members)
            if (step + 1) % case.sync_interval == 0:
                assert all(other == first for other in others), f"step {step}, ranks {list(members)}"
            else:
                # Each group has trained on its own samples: no two have a shard in common.
                assert not any(
                    a == b for other in others for a, b in zip(first.items(), other.items(), strict=True)
                )
        assert all(ranks[r].ended == ranks[members[0]].ended for r in members)


@pytest.mark.parametrize("case", MATRIX[:: len(OPTIMIZERS) + 1], ids=str)
def test_ten_steps_move_every_tensor_far_more_than_the_tolerance(
    case: Case, trained: Callable[[Case], list[Trained]]
) -> None:
    """Else the comparison with the oracle would prove nothing."""
    rank = trained(case)[0]
    moved = {
        name: _distance(rank.final[name], rank.initial[name]) for name in rank.initial if "moment" not in name
    }
    assert min(moved.values()) > 1000 * TOLERANCE, moved


def _oracle(case: Case, initial: dict[str, torch.Tensor]) -> Oracle:
    """The oracle, starting from the implementation's own initial weights."""
    scaled = case.optimizer.startswith("momentum_scaled")
    c = (case.scale or float(case.replica_groups)) if scaled else 1.0
    kind = "rowwise_adagrad" if scaled else case.optimizer
    return Oracle(
        FEATURES,
        {t["name"]: initial[f"table.{t['name']}"] for t in TABLES},
        _layers(initial, BOTTOM),
        _layers(initial, OVER),
        TableOptimizer(kind, (LEARNING_RATE | ADAGRAD_LEARNING_RATE)[case.optimizer], case.eps, c),
        DenseOptimizer(case.dense_optimizer, DENSE_LEARNING_RATE[case.dense_optimizer]),
        case.replica_groups,
        _column_parts(case),
        case.sync_interval,
        case.sync_optimizer_state == "delayed",
        case.initial_accumulator,
        [Cross(*(initial[name] for name in names)) for names in CROSSES] if case.crossed else [],
    )


def _column_parts(case: Case) -> dict[str, int]:
    """By hand: 8 columns make two parts of 4 where a group has two ranks or more, else one part of 8."""
    cut = 1 if case.world_size == case.replica_groups else 2
    kinds = (SHARDING | SPECIAL_SHARDING)[case.sharding]
    return {t["name"]: cut if kinds.get(t["name"]) == "column_wise" else 1 for t in TABLES}


#: TorchRec's names of DLRM's layers, first to last.
BOTTOM = [f"dense.dense_arch.model._mlp.{i}._linear" for i in range(2)]
CROSSES = [
    [f"dense.inter_arch.crossnet.{kind}.{layer}" for kind in ("V_kernels", "W_kernels", "bias")]
    for layer in range(CROSS["layers"])
]
OVER = [f"dense.over_arch.model.0._mlp.{i}._linear" for i in range(2)] + ["dense.over_arch.model.1"]


def _layers(weights: dict[str, torch.Tensor], names: list[str]) -> list[Layer]:
    return [Layer(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in names]


def _named(oracle: Oracle, with_moments: bool) -> dict[str, torch.Tensor]:
    """The oracle's tensors under the names that ``gather_weights`` uses."""
    group = oracle.groups[0]  # all groups are equal after a sync
    named = {f"table.{name}": weight for name, weight in group.tables.items()}
    if with_moments:
        # One moment a row comes back as [rows], several as [rows, C].
        named |= {f"moment.{name}": v.squeeze(1) for name, v in group.moments.items()}
    for names, layers in ((BOTTOM, oracle.bottom), (OVER, oracle.over)):
        for name, layer in zip(names, layers, strict=True):
            named |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
    for three, crossing in zip(CROSSES, oracle.cross, strict=False):
        named |= dict(zip(three, crossing, strict=True))
    return named


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """max|a - b| / max|b|."""
    return float((a - b).abs().max() / b.abs().max())
