"""Many tables, as a click model of an ads system has: 48 of 40 to 100,000 rows, with dims from 8 to 64.

Ids are skewed and reused and bags have unlike sizes, as in production traces
(``workloads.data.trace_like``). The teacher is known, and so is the best AUC that any model can reach:
``BEST_AUC``, which records repeat as ``bayes_auc``.

At the default size the tables hold 868,405 rows in 72 MB, and a sample has 121 ids. ``row_factor`` scales
the rows: ``ctr_zipf,row_factor=100`` has 87 million. How often rows are reused follows from it: at factor
10 the histogram is the published one of a production trace within 0.05 (largest distance between the
cumulative shares), at factor 1 tables are too small for so many rows that are looked up once.
"""

from __future__ import annotations

from suite.spec import BatchSpec, DataSpec, ModelSpec, TableSpec, TrainingDefaults, WorkloadSpec
from workloads.specs._scaled import scaled_name, scaled_rows

#: (name, how many, rows of the largest, dim, ids a sample). Of several tables of a kind each has half the
#: rows of the one before.
KINDS = (
    ("user", 3, 100_000, 32, 1),
    ("item", 4, 80_000, 32, 1),
    ("advertiser", 2, 40_000, 16, 1),
    ("clicked", 4, 60_000, 16, 12),
    ("seen", 3, 40_000, 16, 6),
    ("query", 4, 50_000, 16, 3.5),
    ("interest", 6, 20_000, 16, 2),
    ("place", 4, 10_000, 16, 1),
    ("device", 5, 4_000, 8, 1),
    ("cross", 6, 64_000, 8, 1),
    ("optional", 4, 8_000, 8, 0.4),
    ("context", 3, 160, 64, 1),
)

#: AUC of the teacher's own click probabilities, and their mean, over BEST_AUC_SAMPLES samples of the
#: evaluation stream at row_factor 1. Its standard error is 0.0004 (20 parts of the samples).
BEST_AUC, BASE_RATE = 0.8685, 0.336
BEST_AUC_SAMPLES = 100_000


def ctr_zipf(row_factor: float = 1.0) -> WorkloadSpec:
    """48 tables of mixed sizes and dims, planted clicks with trace-like ids."""
    name = scaled_name("ctr_zipf", row_factor, 1.0)
    tables = tuple(
        TableSpec(
            name=f"{kind}_{number}",
            rows=scaled_rows(largest >> number, row_factor),
            dim=dim,
            features=(f"{kind}_{number}",),
            pooling_factor=ids,
        )
        for kind, count, largest, dim, ids in KINDS
        for number in range(count)
    )
    best = f"; best AUC {BEST_AUC}" if row_factor == 1 else ""
    return WorkloadSpec(
        name=name,
        description=f"48 tables of mixed rows and dims, trace-like ids, planted clicks{best}",
        model=ModelSpec(
            factory="workloads.models.deep_cross:deep_cross", dense_features=13, over_mlp=(256, 128, 1)
        ),
        tables=tables,
        data=DataSpec(
            source="workloads.data.trace_like:TraceLikeClicks",
            options={
                "zipf_exponent": 0.9,
                "zipf_spread": 0.3,
                "reuse": 0.4,
                "working_set": 1_024,
                "window": 4_096,
                "signal": 2.0,
                "bias": -1.5,
                "eval_samples": 16_384,
                "teacher_seed": 0,
            },
        ),
        batch=BatchSpec(global_size=1_024, per_rank=512),
        defaults=TrainingDefaults(steps=40, warmup_steps=8),
    )
