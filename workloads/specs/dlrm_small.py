"""A DLRM small enough for a laptop and large enough for every component of a step to matter.

Eight tables of very unlike sizes, 236,168 rows x 64 (60 MB), three of them multi-hot: 19.5 ids a sample.
A step pools 1,024 x 8 embeddings (2 MB) and takes about 20 ms of one core. After the default 60 steps the
AUC is about 0.79 and still rising towards the teacher's own, 0.861 (``bayes_auc`` in the record).
"""

from __future__ import annotations

from suite.spec import BatchSpec, DataSpec, ModelSpec, TableSpec, TrainingDefaults, WorkloadSpec

DIM = 64


def dlrm_small() -> WorkloadSpec:
    """Eight tables, synthetic clicks with Zipf ids."""
    return WorkloadSpec(
        name="dlrm_small",
        description="eight tables of up to 100,000 rows x 64, some multi-hot, synthetic Zipf clicks",
        model=ModelSpec(dense_features=13, bottom_mlp=(64, DIM), over_mlp=(128, 64, 1)),
        tables=(
            TableSpec(name="user", rows=100_000, dim=DIM, features=("user",)),
            TableSpec(name="item", rows=60_000, dim=DIM, features=("item",)),
            TableSpec(name="history", rows=40_000, dim=DIM, features=("history",), pooling_factor=4),
            TableSpec(name="words", rows=20_000, dim=DIM, features=("words",), pooling_factor=2.5),
            TableSpec(name="advertiser", rows=10_000, dim=DIM, features=("advertiser",)),
            TableSpec(name="city", rows=5_000, dim=DIM, features=("city",)),
            TableSpec(name="interests", rows=1_000, dim=DIM, features=("interests",), pooling_factor=8),
            TableSpec(name="hour_of_week", rows=168, dim=DIM, features=("hour_of_week",)),
        ),
        data=DataSpec(
            source="workloads.data.synthetic:SyntheticClicks",
            options={
                "zipf_exponent": 1.05,
                "signal": 2.0,
                "bias": -1.0,
                "eval_samples": 16_384,
                "teacher_seed": 0,
            },
        ),
        batch=BatchSpec(global_size=1_024, per_rank=512),
        defaults=TrainingDefaults(steps=60, warmup_steps=10),
    )
