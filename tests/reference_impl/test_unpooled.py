"""An unpooled table (EmbeddingCollection) in 1D and 2D against the oracle, in every sharding type.

The same tolerance as in ``test_oracle``, and for the same reason: max|a - b| <= 1e-5 max|b| a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from suite.oracle.batch import GlobalBatch
from suite.oracle.dlrm import Layer
from suite.oracle.next_token import NextTokenOracle
from suite.oracle.optimizers import DenseOptimizer, TableOptimizer
from tests.helpers.distributed import World
from tests.helpers.training import EPS, SEED, Trained, digests, rank_batch

ROWS, DIM, STEPS = 41, 8, 10
LEARNING_RATE = {"sgd": 8.0, "adagrad": 0.05, "rowwise_adagrad": 0.05}
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Unpooled:
    world_size: int
    sharding: str
    replica_groups: int = 1
    placement: str = "interleaved"
    optimizer: str = "rowwise_adagrad"
    implementation: str = "reference_2d"
    global_batch: int = 24
    sync_interval: int = 1
    sync_optimizer_state: str = "immediate"

    def __str__(self) -> str:
        return "-".join(str(value) for value in self.__dict__.values())

    def run_spec(self) -> Any:
        from suite.spec import RunSpec

        layout = ("world_size", "replica_groups", "placement", "sharding")
        return RunSpec.model_validate(
            {
                "workload": {
                    "name": "tokens",
                    "model": {
                        "factory": "workloads.models.next_token:next_token",
                        "dense_features": 0,
                        "over_mlp": [12, DIM],
                    },
                    "tables": [
                        {
                            "name": "tokens",
                            "rows": ROWS,
                            "dim": DIM,
                            "features": ["context", "candidate"],
                            "pooling": "none",
                        }
                    ],
                    "data": {"source": "unused:Unused"},
                    "batch": {"global_size": self.global_batch, "per_rank": 1},
                },
                "implementation": self.implementation,
                "layout": {name: getattr(self, name) for name in layout},
                "optimizer": {
                    "name": self.optimizer,
                    "learning_rate": LEARNING_RATE[self.optimizer],
                    "eps": EPS,
                    "dense": {"name": "sgd", "learning_rate": 0.5},
                },
                "sync_interval": self.sync_interval,
                "sync_optimizer_state": self.sync_optimizer_state,
                "seed": SEED,
            }
        )


def samples(step: int, size: int) -> GlobalBatch:
    """Contexts of none to four tokens, small ids frequent, tokens repeated inside a context."""
    draw = torch.Generator().manual_seed(2_000 + step)

    def tokens(count: int) -> list[int]:
        return (torch.rand(count, generator=draw) ** 3 * ROWS).long().tolist()

    lengths = torch.randint(0, 5, (size,), generator=draw).tolist()
    return GlobalBatch(
        torch.zeros(size, 0),
        (torch.rand(size, generator=draw) < 0.4).float(),
        {"context": [tokens(n) for n in lengths], "candidate": [tokens(1) for _ in lengths]},
    )


def _train(case: Unpooled) -> Trained:
    """Job of a rank. The tables start larger than usual, or ten steps would hardly move the layers."""
    import torch.distributed as dist

    from suite.implementation import implementation_class

    run = case.run_spec()
    model: Any = implementation_class(case.implementation)(run, torch.device("cpu"))
    for shard in model.shards:
        shard.weight.detach().mul_(5)
    initial, began = dict(model.gather_weights()), digests(model)
    losses, seen = [], []
    for step in range(STEPS):
        batch = rank_batch(samples(step, case.global_batch), run, dist.get_rank())
        losses.append(float(model.train_step(batch)))
        seen.append(digests(model))
    model.sync_replicas()
    sharding = {t.table: (t.sharding, t.column_shards) for t in model.sharding()}
    return Trained(initial, dict(model.gather_weights()), losses, began, seen, digests(model), sharding)


TYPES = ("table_wise", "row_wise", "column_wise")
CASES = [
    *(Unpooled(2, sharding, m) for sharding in TYPES for m in (1, 2)),
    Unpooled(2, "row_wise", implementation="baseline_1d"),
    *(Unpooled(4, sharding, 2) for sharding in TYPES),
    Unpooled(4, "row_wise", 2, optimizer="sgd"),
    Unpooled(4, "column_wise", 2, optimizer="adagrad"),
    Unpooled(4, "row_wise", 2, sync_interval=3, sync_optimizer_state="delayed"),
    # Uneven slices, and ranks without a sample.
    Unpooled(4, "row_wise", 2, global_batch=13),
    Unpooled(4, "row_wise", 2, global_batch=3),
]
#: Left to ``make test-slow``.
MORE_CASES = [
    *(Unpooled(2, sharding, implementation="baseline_1d") for sharding in ("table_wise", "column_wise")),
    *(Unpooled(4, sharding, 2, "contiguous") for sharding in TYPES),
    Unpooled(4, "row_wise", 4),
    *(Unpooled(4, sharding, 2, global_batch=3) for sharding in ("table_wise", "column_wise")),
]


@pytest.mark.parametrize(
    "case", [*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in MORE_CASES)], ids=str
)
def test_ten_steps_equal_the_oracle(case: Unpooled, world: Callable[[int], World]) -> None:
    ranks = world(case.world_size).run(_train, case)
    oracle = _oracle(case, ranks[0].initial)
    losses = [oracle.step(samples(step, case.global_batch)) for step in range(STEPS)]
    oracle.finish()

    measured = torch.tensor([r.losses for r in ranks], dtype=torch.float64).mean(0)
    assert _distance(measured, torch.tensor(losses, dtype=torch.float64)) <= TOLERANCE
    group = oracle.groups[0]
    expected = {"table.tokens": group.tables["tokens"]}
    if case.optimizer != "sgd":
        expected["moment.tokens"] = group.moments["tokens"].squeeze(1)
    for number, layer in zip((0, 2), oracle.over, strict=True):
        expected |= {f"dense.mlp.{number}.weight": layer.weight, f"dense.mlp.{number}.bias": layer.bias}
    for rank in ranks:
        assert rank.final.keys() == expected.keys()
        apart = {name: _distance(rank.final[name].double(), expected[name]) for name in expected}
        assert max(apart.values()) <= TOLERANCE, apart
        moved = {n: _distance(rank.final[n], rank.initial[n]) for n in expected if "moment" not in n}
        assert min(moved.values()) > 1000 * TOLERANCE, moved
    # Replicas are equal to the last bit: two ranks that hold the same shard have the same digests.
    held: dict[Any, set[str]] = {}
    for rank in ranks:
        for shard, digest in rank.ended.items():
            held.setdefault(shard, set()).add(digest)
    assert all(len(values) == 1 for values in held.values())


def _oracle(case: Unpooled, initial: dict[str, torch.Tensor]) -> NextTokenOracle:
    layers = [Layer(initial[f"dense.mlp.{n}.weight"], initial[f"dense.mlp.{n}.bias"]) for n in (0, 2)]
    # By hand: 8 columns are two parts of 4 where a group has two ranks.
    cut = 2 if case.sharding == "column_wise" and case.world_size > case.replica_groups else 1
    return NextTokenOracle(
        [],
        {"tokens": initial["table.tokens"]},
        [],
        layers,
        TableOptimizer(case.optimizer, LEARNING_RATE[case.optimizer], EPS),
        DenseOptimizer("sgd", 0.5),
        case.replica_groups,
        {"tokens": cut},
        case.sync_interval,
        case.sync_optimizer_state == "delayed",
    )


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max())
