"""Tables that cost little to look up and much to move: where a network's limits show on few cores.

Eight equal tables of dim 64. Two numbers decide whether 1D or 2D moves less between hosts. A step's pooled
vectors, ``global_batch * 8 * 64 * 4`` bytes (8.4 MB at 4,096 samples), travel in the all-to-all, forward and
once more as gradients backward. The tables, ``8 * rows * 64 * 4`` bytes (8.2 MB at 4,000 rows), travel in
each replica sync. ``network_bound,rows=16000`` changes their ratio. docs/cluster.md has what came out.
"""

from __future__ import annotations

from suite.spec import BatchSpec, DataSpec, ModelSpec, TableSpec, TrainingDefaults, WorkloadSpec

TABLES, DIM = 8, 64


def network_bound(rows: int = 4_000) -> WorkloadSpec:
    """Eight tables of ``rows`` rows, four ids a feature, a small model, synthetic clicks."""
    return WorkloadSpec(
        name="network_bound" if rows == 4_000 else f"network_bound_rows_{rows}",
        description=f"{TABLES} tables of {rows:,} rows, dim {DIM}: little to compute, much to send",
        model=ModelSpec(dense_features=4, bottom_mlp=(DIM,), over_mlp=(16, 1)),
        tables=tuple(
            TableSpec(name=f"table_{i}", rows=rows, dim=DIM, features=(f"feature_{i}",), pooling_factor=4)
            for i in range(TABLES)
        ),
        data=DataSpec(
            source="workloads.data.synthetic:SyntheticClicks",
            options={"zipf_exponent": 1.05, "eval_samples": 1_024, "teacher_seed": 0},
        ),
        batch=BatchSpec(global_size=4_096, per_rank=1_024),
        defaults=TrainingDefaults(steps=24, warmup_steps=4),
    )
