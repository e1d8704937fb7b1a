"""Planted clicks for the quality lab: so few features that a batch of a million samples takes seconds.

Four one-hot tables, of 168 to 100,000 rows, with Zipf ids: at a global batch of 262,144 every one of 64
groups meets the hot rows in each step, and few groups meet a rare one. So it shows both regimes of second
moments (``docs/quality.md``). The best AUC is in the record (``bayes_auc``).
"""

from __future__ import annotations

from suite.spec import (
    BatchSpec,
    DataSpec,
    DenseOptimizerSpec,
    ModelSpec,
    OptimizerSpec,
    TableSpec,
    TrainingDefaults,
    WorkloadSpec,
)

DIM = 8
TABLES = {"user": 100_000, "item": 20_000, "advertiser": 2_000, "hour_of_week": 168}


def planted_clicks() -> WorkloadSpec:
    """Four one-hot tables, synthetic Zipf clicks, large batches."""
    return WorkloadSpec(
        name="planted_clicks",
        description="four one-hot tables of up to 100,000 rows x 8, synthetic Zipf clicks, for large batches",
        model=ModelSpec(dense_features=2, bottom_mlp=(DIM,), over_mlp=(16, 1)),
        tables=tuple(
            TableSpec(name=name, rows=rows, dim=DIM, features=(name,)) for name, rows in TABLES.items()
        ),
        data=DataSpec(
            source="workloads.data.synthetic:SyntheticClicks",
            options={
                "zipf_exponent": 1.05,
                "signal": 2.0,
                "bias": -1.0,
                "eval_samples": 32_768,
                "teacher_seed": 0,
            },
        ),
        batch=BatchSpec(global_size=65_536, per_rank=16_384),
        defaults=TrainingDefaults(
            optimizer=OptimizerSpec(
                name="rowwise_adagrad",
                learning_rate=0.04,
                dense=DenseOptimizerSpec(name="adagrad", learning_rate=0.02),
            ),
            steps=40,
            warmup_steps=5,
        ),
    )
