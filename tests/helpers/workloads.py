"""Small workloads and plain views of samples, for tests of data sources."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.data import Samples
from suite.spec import BatchSpec, DataSpec, ModelSpec, TableSpec, WorkloadSpec


def tiny_workload(source: str, tables: tuple[TableSpec, ...] | None = None, **options: Any) -> WorkloadSpec:
    """Two tables, ``user`` with one id a sample and ``tags`` with about two, and two dense features."""
    return WorkloadSpec(
        name="tiny",
        model=ModelSpec(dense_features=2, bottom_mlp=(4,), over_mlp=(4, 1)),
        tables=tables
        or (
            TableSpec(name="user", rows=10, dim=4, features=("user",)),
            TableSpec(name="tags", rows=5, dim=4, features=("tags",), pooling_factor=1.8),
        ),
        data=DataSpec(source=source, options=options),
        batch=BatchSpec(global_size=8, per_rank=4),
    )


def rows_of(samples: Samples) -> list[tuple[Any, ...]]:
    """One tuple a sample: label, dense values, then the ids of each feature by name."""
    ids = {
        feature: np.split(ids, np.cumsum(lengths)[:-1]) for feature, (ids, lengths) in samples.sparse.items()
    }
    return [
        (
            float(label),
            tuple(samples.dense[i].tolist()),
            *((feature, tuple(ids[feature][i].tolist())) for feature in sorted(ids)),
        )
        for i, label in enumerate(samples.labels)
    ]
