"""Whether a workload's tables and dense features fit MovieLens, of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from suite.errors import ConfigError
from suite.spec import WorkloadSpec


def refuse_misfits(workload: WorkloadSpec, rows: Mapping[str, int], dense_features: Sequence[str]) -> None:
    """Refuses unknown features, tables too small for their ids, and another number of dense features.

    Args:
        workload: what is to be trained.
        rows: of each feature that there is, one more than its largest id.
        dense_features: their names.

    Raises:
        ConfigError: naming the table's field, or ``model.dense_features``.
    """
    for table in workload.tables:
        for feature in table.features:
            if feature not in rows:
                raise ConfigError(
                    f"tables.{table.name}.features",
                    feature,
                    "MovieLens has no such feature.",
                    f"Use some of {list(rows)}.",
                )
            if table.rows < rows[feature]:
                raise ConfigError(
                    f"tables.{table.name}.rows",
                    table.rows,
                    f"feature {feature} has ids up to {rows[feature] - 1}.",
                    f"Use {rows[feature]} rows or more.",
                )
    if workload.model.dense_features != len(dense_features):
        raise ConfigError(
            "model.dense_features",
            workload.model.dense_features,
            f"MovieLens has {len(dense_features)}: {', '.join(dense_features)}.",
            f"Use {len(dense_features)}.",
        )
