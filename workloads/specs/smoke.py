"""A few tiny tables: does everything run? Seconds, at any world size up to 8."""

from __future__ import annotations

from suite.spec import BatchSpec, DataSpec, ModelSpec, TableSpec, TrainingDefaults, WorkloadSpec

DIM = 16


def smoke() -> WorkloadSpec:
    """Four tables, 2,000 rows in all, synthetic clicks."""
    return WorkloadSpec(
        name="smoke",
        description="four tiny tables, synthetic clicks: does everything run?",
        model=ModelSpec(dense_features=4, bottom_mlp=(DIM,), over_mlp=(16, 1)),
        tables=(
            TableSpec(name="user", rows=1_000, dim=DIM, features=("user",)),
            TableSpec(name="item", rows=800, dim=DIM, features=("item",)),
            TableSpec(name="words", rows=120, dim=DIM, features=("words",), pooling_factor=2.5),
            TableSpec(name="city", rows=80, dim=DIM, features=("city",)),
        ),
        data=DataSpec(
            source="workloads.data.synthetic:SyntheticClicks",
            options={
                "zipf_exponent": 1.05,
                "signal": 2.0,
                "bias": -1.0,
                "eval_samples": 2_048,
                "teacher_seed": 0,
            },
        ),
        batch=BatchSpec(global_size=256, per_rank=128),
        defaults=TrainingDefaults(steps=20, warmup_steps=4),
    )
