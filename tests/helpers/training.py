"""A small DLRM that is awkward on purpose, and the job that trains it on real ranks.

Tables of 41, 30, 23 and 7 rows (no multiple of 4, so row-wise shards are uneven); one-hot and multi-hot
features, empty bags, ids repeated inside a bag and on all ranks (``rare`` has 7 rows), two features that
share a table, sum and mean pooling.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace
from typing import Any

import torch

from suite.oracle.batch import GlobalBatch
from suite.oracle.dlrm import Feature

STEPS = 10
SEED = 3
DIM = 8
DENSE_FEATURES = 4
TABLES: tuple[dict[str, Any], ...] = (
    {"name": "users", "rows": 41, "dim": DIM, "features": ["user"]},
    {"name": "products", "rows": 30, "dim": DIM, "features": ["clicked", "liked"]},
    {"name": "tags", "rows": 23, "dim": DIM, "features": ["tag"], "pooling": "mean"},
    {"name": "rare", "rows": 7, "dim": DIM, "features": ["rare"]},
)
FEATURES = tuple(Feature(f, t["name"], t.get("pooling", "sum")) for t in TABLES for f in t["features"])
#: Smallest and largest number of ids in a bag.
BAG_SIZES = {"user": (1, 1), "clicked": (0, 5), "liked": (0, 3), "tag": (0, 4), "rare": (1, 2)}
#: The sharding type of every table; those not named are table-wise.
SHARDING = {
    "table_wise": {},
    "row_wise": dict.fromkeys((t["name"] for t in TABLES), "row_wise"),
    "mixed": {"users": "row_wise", "products": "row_wise"},
    "column_wise": dict.fromkeys((t["name"] for t in TABLES), "column_wise"),
    "data_parallel": dict.fromkeys((t["name"] for t in TABLES), "data_parallel"),
    "table_row_wise": dict.fromkeys((t["name"] for t in TABLES), "table_row_wise"),
    "grid": dict.fromkeys((t["name"] for t in TABLES), "grid"),
    # tags, which pools by mean, is row-wise or grid beside tables of the other types.
    "host_types": {"users": "data_parallel", "products": "table_row_wise", "tags": "grid"},
    "all_types": {"users": "row_wise", "products": "column_wise", "tags": "row_wise"},
}
#: Cases of their own, outside the matrix.
SPECIAL_SHARDING = {
    # With two ranks users goes to one, and tags and both column shards of rare to the other.
    "column_shards_together": {"products": "row_wise", "rare": "column_wise"},
    # tags in the other mixtures of mean pooling.
    "row_mean_beside_tables": {"tags": "row_wise"},
    "host_mean_beside_replicas": {"tags": "table_row_wise", "rare": "data_parallel"},
    "replicated_mean_beside_rows": {"users": "row_wise", "tags": "data_parallel"},
    "row_mean_beside_columns": {"tags": "row_wise"}
    | dict.fromkeys(("users", "products", "rare"), "column_wise"),
    "column_mean_beside_rows": {"users": "row_wise", "products": "row_wise", "tags": "column_wise"},
    # TorchRec's planner chooses.
    "planned": {},
    "table_mean_beside_columns": dict.fromkeys(("users", "products", "rare"), "column_wise"),
}
#: Large steps, so that ten of them move the tables far more than the tolerance of any comparison; an
#: eps of the size of sqrt(v), so that it matters where it stands.
LEARNING_RATE = {"sgd": 2.0, "rowwise_adagrad": 0.05, "momentum_scaled_rowwise_adagrad": 0.05}
#: Outside the matrix: a moment an element.
ADAGRAD_LEARNING_RATE = {"adagrad": 0.05}
EPS = 0.01
CROSS = {"layers": 2, "low_rank": 3}
DENSE_LEARNING_RATE = {"sgd": 0.5, "adagrad": 0.02}


@dataclass(frozen=True)
class Case:
    """One training of the small model; ``str(case)`` is its test id."""

    world_size: int
    sharding: str
    replica_groups: int = 1
    placement: str = "interleaved"
    optimizer: str = "rowwise_adagrad"
    implementation: str = "reference_2d"
    global_batch: int = 24
    scale: float | None = None
    eps: float = EPS
    learning_rate: float | None = None
    dense_optimizer: str = "sgd"
    steps: int = STEPS
    sync_interval: int = 1
    sync_optimizer_state: str = "immediate"
    initial_accumulator: float = 0.0
    #: DLRM_DCN instead of DLRM, with CROSS layers.
    crossed: bool = False
    ranks_per_host: int | None = None
    exchange_dtype: str = "fp32"
    table_dtype: str = "fp32"
    pipeline: str = "none"

    def __str__(self) -> str:
        default = Case(self.world_size, self.sharding)
        words = [
            f"T{self.world_size}",
            "1D" if self.implementation == "baseline_1d" else f"M{self.replica_groups}",
            self.placement,
            self.sharding,
            self.optimizer,
        ]
        if self.scale is not None:
            words.append(f"c{self.scale:g}")
        if self.crossed:
            words.append("dcn")
        if self.initial_accumulator:
            words.append(f"from{self.initial_accumulator:g}")
        if self.global_batch != default.global_batch:
            words.append(f"G{self.global_batch}")
        if self.dense_optimizer != default.dense_optimizer:
            words.append(f"dense-{self.dense_optimizer}")
        if self.sync_interval != 1:
            words.append(f"every{self.sync_interval}")
        if self.sync_optimizer_state != "immediate":
            words.append(self.sync_optimizer_state)
        if self.ranks_per_host is not None:
            words.append(f"H{self.ranks_per_host}")
        if self.exchange_dtype != "fp32":
            words.append(f"exchange-{self.exchange_dtype}")
        if self.table_dtype != "fp32":
            words.append(f"tables-{self.table_dtype}")
        if self.pipeline != "none":
            words.append(f"pipeline-{self.pipeline}")
        return "-".join(words)

    def but(self, **changes: Any) -> Case:
        """The same case with some fields changed."""
        return replace(self, **changes)

    def run_spec(self) -> Any:
        """The RunSpec that a user would have to write."""
        from suite.spec import RunSpec

        return RunSpec.model_validate(
            {
                "workload": {
                    "name": "small",
                    "model": {
                        "dense_features": DENSE_FEATURES,
                        "bottom_mlp": [16, DIM],
                        "over_mlp": [16, 8, 1],
                        "cross": CROSS if self.crossed else None,
                    },
                    "tables": [{**t, "dtype": self.table_dtype} for t in TABLES],
                    "data": {"source": "unused:Unused"},
                    "batch": {"global_size": self.global_batch, "per_rank": 1},
                },
                "implementation": self.implementation,
                "exchange_dtype": self.exchange_dtype,
                "pipeline": self.pipeline,
                "layout": {
                    "world_size": self.world_size,
                    "replica_groups": self.replica_groups,
                    "placement": self.placement,
                    "ranks_per_host": self.ranks_per_host,
                    "sharding": "planned" if self.sharding == "planned" else "table_wise",
                    "sharding_by_table": (SHARDING | SPECIAL_SHARDING)[self.sharding],
                },
                "optimizer": {
                    "name": self.optimizer,
                    "learning_rate": self.learning_rate
                    or (LEARNING_RATE | ADAGRAD_LEARNING_RATE)[self.optimizer],
                    "eps": self.eps,
                    "scale": self.scale,
                    "initial_accumulator": self.initial_accumulator,
                    "dense": {
                        "name": self.dense_optimizer,
                        "learning_rate": DENSE_LEARNING_RATE[self.dense_optimizer],
                    },
                },
                "sync_interval": self.sync_interval,
                "sync_optimizer_state": self.sync_optimizer_state,
                "seed": SEED,
            }
        )


#: Where a shard starts: table, first row, first column.
ShardKey = tuple[str, int, int]


@dataclass(frozen=True)
class Trained:
    """What one rank saw.

    Attributes:
        initial: ``gather_weights()`` before the first step.
        final: the same after the last step and ``sync_replicas()``.
        losses: the local loss of every step (sum over local samples times T / G).
        began: for each shard of this rank, before the first step, the hash of its weights' and moments' bits.
        digests: the same after every step.
        ended: the same after ``sync_replicas()``.
        sharding: by table, its sharding type and column shards.
    """

    initial: dict[str, torch.Tensor]
    final: dict[str, torch.Tensor]
    losses: list[float]
    began: dict[ShardKey, str]
    digests: list[dict[ShardKey, str]]
    ended: dict[ShardKey, str]
    sharding: dict[str, tuple[str, int]]


@functools.cache
def global_batch(step: int, size: int) -> GlobalBatch:
    """The samples of one step, the same for every layout."""
    draw = torch.Generator().manual_seed(1000 + step)
    rows = {f: t["rows"] for t in TABLES for f in t["features"]}
    bags = {}
    for feature, (least, most) in BAG_SIZES.items():
        lengths = torch.randint(least, most + 1, (size,), generator=draw).tolist()
        # Cubing makes small ids frequent, as real ones are.
        bags[feature] = [
            (torch.rand(n, generator=draw) ** 3 * rows[feature]).long().tolist() for n in lengths
        ]
    return GlobalBatch(
        torch.randn(size, DENSE_FEATURES, generator=draw),
        (torch.rand(size, generator=draw) < 0.4).float(),
        bags,
    )


def rank_batch(batch: GlobalBatch, run: Any, rank: int) -> Any:
    """A rank's Batch: its slice as a KeyedJaggedTensor, with the loss scale T / G."""
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    from reference_impl.batch import Batch

    layout = run.layout.ranks()
    part = batch.part(*layout.sample_range(rank, len(batch)))
    keys = list(run.workload.features)
    ids = [i for key in keys for bag in part.bags[key] for i in bag]
    lengths = [len(bag) for key in keys for bag in part.bags[key]]
    sparse = KeyedJaggedTensor(
        keys, torch.tensor(ids, dtype=torch.int64), lengths=torch.tensor(lengths, dtype=torch.int32)
    )
    share = Batch(part.dense, sparse, part.labels, layout.world_size / len(batch))
    return share.padded_to(layout.largest_slice(len(batch)))


def train(case: Case) -> Trained:
    """Job of a rank: trains the case through the suite's implementation contract."""
    import torch.distributed as dist

    from suite.implementation import implementation_class
    from suite.rank_run import announced

    run = case.run_spec()
    model: Any = implementation_class(case.implementation)(run, torch.device("cpu"))
    initial, began = dict(model.gather_weights()), digests(model)
    losses, seen = [], []

    def batch_of(step: int) -> Any:
        return rank_batch(global_batch(step, case.global_batch), run, dist.get_rank())

    next_of = announced(model, batch_of, case.steps)
    for step in range(case.steps):
        losses.append(float(model.train_step(next_of(step))))
        seen.append(digests(model))
    model.sync_replicas()
    sharding = {t.table: (t.sharding, t.column_shards) for t in model.sharding()}
    return Trained(initial, dict(model.gather_weights()), losses, began, seen, digests(model), sharding)


def digests(model: Any) -> dict[ShardKey, str]:
    """For each shard of this rank the hash of its bits."""
    return {(s.table, s.row_offset, s.column_offset): _digest(s) for s in model.shards}


def _digest(shard: Any) -> str:
    bits = hashlib.sha256(shard.weight.detach().numpy().tobytes())
    for state in shard.states:
        bits.update(state.numpy().tobytes())
    return bits.hexdigest()
