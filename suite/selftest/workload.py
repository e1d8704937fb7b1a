"""A small model that is awkward on purpose, on generated clicks.

Tables of 41, 30, 23 and 7 rows (row-wise shards are uneven); empty bags, ids that repeat inside a bag and on
all ranks, two features that share a table, sum and mean pooling.
"""

from __future__ import annotations

from suite.spec import WorkloadSpec

DIM = 8
STEPS = 10


def workload(checks: str) -> WorkloadSpec:
    """The model, for a run that checks the implementation ``checks``."""
    return WorkloadSpec.model_validate(
        {
            "name": "selftest",
            "description": checks,
            "model": {"dense_features": 4, "bottom_mlp": [16, DIM], "over_mlp": [16, 8, 1]},
            "tables": [
                {"name": "users", "rows": 41, "dim": DIM, "features": ["user"]},
                {
                    "name": "products",
                    "rows": 30,
                    "dim": DIM,
                    "features": ["clicked", "liked"],
                    "pooling_factor": 2.5,
                },
                {
                    "name": "tags",
                    "rows": 23,
                    "dim": DIM,
                    "features": ["tag"],
                    "pooling": "mean",
                    "pooling_factor": 0.7,
                },
                {"name": "rare", "rows": 7, "dim": DIM, "features": ["rare"], "pooling_factor": 3.0},
            ],
            "data": {
                "source": "workloads.data.synthetic:SyntheticClicks",
                "options": {"eval_samples": 64},
            },
            "batch": {"global_size": 24, "per_rank": 12},
            "defaults": {"steps": STEPS, "warmup_steps": 2},
        }
    )
