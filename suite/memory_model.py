"""What a rank's memory should be, by arithmetic: the categories that are measured. All of it is ``modelled``.

**What lasts** follows from the tables and how they were sharded. A table of R rows and D columns in C column
shards of S row shards each gives a rank, for each of its shards, ceil(R / S) rows (the last one what is
left) of D / C columns; row-wise optimizers add one float32 a row and column shard, others one an element,
once for each state. With delayed moments a second copy waits for the next sync.

**What passes** is that of one of five moments, whichever is largest in sum. P samples a rank, N ranks a
group, F features of dim D, n = F + 1 vectors a sample, K = n (n - 1) / 2 pairs; X = 4 P F D bytes are the
pooled vectors of a rank's own samples, and L = 4 N P c those that it looks up for its group, c the columns of
all its features (of row-wise tables all ranks look up partial sums of all samples, so c is F D).

    moment                activations                     gradients             communication_buffers
    output_dist           bottom + L                      g                     X + L + ids
    dense_forward         bottom + X + 4 P n D + top      g                     ids
    dense_backward        bottom + 4 P n D                g + 2 * 4 P n D       ids
                                                            + 4 P (n^2 + D + K)
    output_dist_backward  bottom                          g + X + 4 P D         X + max(X, L); row-wise 2 L
    replica_sync          -                               g                     weights + states, flattened

bottom: the outputs of the bottom MLP; g: the dense parameters' gradients, which DDP keeps in its buckets;
top: what is largest of the interaction and the top MLP. The rows follow from TorchRec's DLRM and comm_ops: an
exchange copies what it sends, gloo flattens what it reduces. Smaller terms (offsets, ids, logits) are in the
code.

Only TorchRec's DLRM is modelled so, on CPUs, in float32, sharded table-, column- or row-wise; of other runs
``reason`` says what is in the way, and what passes is None. On GPUs nothing was there to check it against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from reference_impl.optimizer import KINDS
from suite.memory_categories import CATEGORIES, PASSING, Category
from suite.record import TableSharding
from suite.spec import RunSpec, TableSpec

FLOAT, LONG, INT = 4, 8, 4
_ELEMENT = {"fp32": 4, "fp16": 2}
_MODELLED = ("table_wise", "column_wise", "row_wise")


@dataclass(frozen=True)
class Modelled:
    """Bytes by category at the modelled peak, the component of that moment, and why some are None."""

    at_peak: dict[Category, int | None]
    peak_component: str | None
    reason: str | None


@dataclass(frozen=True)
class _Shard:
    """A block of a table: of which table, its rows and columns, and how the table is sharded."""

    table: TableSpec
    sharding: str
    rows: int
    columns: int


def modelled(run: RunSpec, sharding: Sequence[TableSharding], rank: int) -> Modelled:
    """What one rank should hold at the peak of a step.

    Args:
        run: the configuration.
        sharding: of all tables, as the record has it.
        rank: of the run.
    """
    if not sharding:
        return Modelled(dict.fromkeys(CATEGORIES), None, "the record does not say how tables are sharded")
    shards = _shards(run, sharding, rank)
    lasting: dict[Category, int | None] = {
        "embedding_weights": sum(s.rows * s.columns * _ELEMENT[s.table.dtype] for s in shards),
        "embedding_optimizer_state": _waiting(run) * _state_bytes(run, shards),
    }
    reason = _in_the_way(run, sharding)
    if reason is not None:
        return Modelled({**dict.fromkeys(CATEGORIES), **lasting}, None, reason)
    tensors = _dense_tensors(run)
    dense = FLOAT * sum(tensors)
    lasting["dense_parameters"] = dense
    # Adagrad: a sum an element, and a step count a tensor.
    adagrad = run.optimizer.dense.name == "adagrad"
    lasting["dense_optimizer_state"] = dense + FLOAT * len(tensors) if adagrad else 0
    moments = _moments(run, shards, dense)
    peak = max(moments, key=lambda component: sum(moments[component].values()))
    passing = {category: moments[peak].get(category, 0) for category in PASSING}
    return Modelled({**lasting, **passing}, peak, None)


def _in_the_way(run: RunSpec, sharding: Sequence[TableSharding]) -> str | None:
    """Why what passes is not modelled; None where it is."""
    model = run.workload.model
    if model.factory is not None or model.cross is not None:
        return "the model is not TorchRec's DLRM"
    if run.device != "cpu":
        return "on GPUs it was never checked"
    if run.exchange_dtype != "fp32":
        return f"vectors travel in {run.exchange_dtype}"
    others = sorted({t.sharding for t in sharding} - set(_MODELLED))
    return f"tables are sharded {', '.join(others)}" if others else None


def _shards(run: RunSpec, sharding: Sequence[TableSharding], rank: int) -> list[_Shard]:
    position = run.layout.ranks().index_in_group(rank)
    tables = {t.name: t for t in run.workload.tables}
    found = []
    for of_table in sharding:
        table = tables[of_table.table]
        if of_table.sharding == "data_parallel":
            found.append(_Shard(table, of_table.sharding, table.rows, table.dim))
            continue
        splits = len(of_table.ranks) // of_table.column_shards
        height = -(-table.rows // splits)
        for i, owner in enumerate(of_table.ranks):
            if owner == position:
                rows = min(height, table.rows - (i % splits) * height)
                columns = table.dim // of_table.column_shards
                found.append(_Shard(table, of_table.sharding, rows, columns))
    return found


def _waiting(run: RunSpec) -> int:
    """Copies of the optimizer state: one more waits where moments are delayed."""
    return 2 if run.sync_optimizer_state == "delayed" and run.layout.replica_groups > 1 else 1


def _state_bytes(run: RunSpec, shards: Sequence[_Shard]) -> int:
    states = KINDS[run.optimizer.name].states
    return sum(FLOAT * s.rows * (1 if kind == "row" else s.columns) for s in shards for kind in states)


def _dense_tensors(run: RunSpec) -> list[int]:
    """Elements of each of DLRM's dense weights and biases."""
    model = run.workload.model
    dim, features = model.bottom_mlp[-1], len(run.workload.features)
    into_top = dim + features * (features + 1) // 2
    layers = [*pairwise((model.dense_features, *model.bottom_mlp)), *pairwise((into_top, *model.over_mlp))]
    return [elements for inputs, outputs in layers for elements in (inputs * outputs, outputs)]


def _moments(run: RunSpec, shards: Sequence[_Shard], dense: int) -> Mapping[str, Mapping[Category, int]]:
    """By component, what passes at its largest moment; the docstring of the module has the formulas."""
    layout, model = run.layout.ranks(), run.workload.model
    p, n_ranks = layout.largest_slice(run.global_batch), layout.group_size
    dim, features = model.bottom_mlp[-1], len(run.workload.features)
    n = features + 1
    pairs = n * (n - 1) // 2
    exchanged = n_ranks > 1

    bottom = FLOAT * p * sum(model.bottom_mlp)
    x = FLOAT * p * features * dim
    looked_up = {kind: _looked_up(shards, kind) * FLOAT * n_ranks * p for kind in _MODELLED}
    l_all, l_rows = sum(looked_up.values()), looked_up["row_wise"]
    # Of the features that a rank looks up: where each bag begins, and its length.
    bags = n_ranks * p * sum(len(s.table.features) for s in shards)
    offsets, lengths = LONG * (bags + 1), INT * (bags + 1)
    ids = int(LONG * sum(_ids(s, n_ranks) for s in shards) * p) if exchanged else 0
    # Without an exchange the lengths are the batch's own, and stay.
    kept = offsets if exchanged else offsets + lengths
    logits, vectors, pooled_grad = FLOAT * p, FLOAT * p * n * dim, FLOAT * p * (dim + pairs)
    batch = FLOAT * p * (model.dense_features + 1)

    top = [FLOAT * p * (n * n + pairs + dim + pairs)]
    outputs = [FLOAT * p * width for width in model.over_mlp[:-1]]
    # Of each hidden layer its output before and after ReLU, beside those of the layers before it.
    top += [pooled_grad + done + output for done, output in zip(accumulate(outputs), outputs, strict=True)]

    def moment(activations: int, gradients: int = 0, buffers: int = 0) -> Mapping[Category, int]:
        return {
            "activations": activations,
            "gradients": dense + gradients,
            "communication_buffers": buffers + ids,
            "other": batch,
        }

    found = {
        "output_dist" if exchanged else "lookup": moment(
            bottom + l_all + offsets + lengths, buffers=x + l_all + lengths if exchanged else 0
        ),
        "dense_forward": moment(bottom + kept + x + max(vectors + max(top), 0 if exchanged else l_all)),
        "dense_backward": moment(
            bottom + kept + logits + vectors, 2 * vectors + pooled_grad + FLOAT * p * n * n
        ),
    }
    if exchanged:
        sent = 2 * l_rows if l_rows else x + max(x, l_all)
        found["output_dist_backward"] = moment(bottom + kept + logits, x + FLOAT * p * dim, sent)
    if layout.replica_groups > 1:
        found["replica_sync"] = moment(kept + logits, buffers=_flattened(run, shards))
    return found


def _looked_up(shards: Sequence[_Shard], sharding: str) -> int:
    """Columns that a rank looks up for each sample, of tables that are sharded so."""
    return sum(len(s.table.features) * s.columns for s in shards if s.sharding == sharding)


def _ids(shard: _Shard, n_ranks: int) -> float:
    """Ids that a rank receives for each of its own samples: of row-wise tables its share of the rows."""
    ids = len(shard.table.features) * shard.table.pooling_factor
    return ids if shard.sharding == "row_wise" else n_ranks * ids


def _flattened(run: RunSpec, shards: Sequence[_Shard]) -> int:
    """What one all-reduce of gloo flattens: all tensors of a dtype; and the moments' copies where delayed."""
    states = _state_bytes(run, shards)
    weights = {
        dtype: sum(s.rows * s.columns * size for s in shards if s.table.dtype == dtype)
        for dtype, size in _ELEMENT.items()
    }
    copies = states if _waiting(run) == 2 else 0
    return max(weights["fp32"] + states, weights["fp16"]) + copies
