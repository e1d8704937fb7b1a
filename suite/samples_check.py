"""Refuses samples that break the contract of ``suite.data.Samples``.

A wrong id is the worst of them: FBGEMM reads rows unchecked, so it trains on other memory or crashes
without saying which feature it was.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from suite.data import Samples
from suite.errors import ConfigError
from suite.spec import TableSpec, WorkloadSpec


def check_samples(samples: Samples, workload: WorkloadSpec, size: int) -> None:
    """Checks ``size`` samples of a workload's data source.

    Raises:
        ConfigError: of kind ``bad_data``, naming the feature or array, and what is wrong with it.
    """
    if not isinstance(samples, Samples):
        raise _refused(
            workload,
            f"it gives {type(samples).__name__}, not Samples.",
            "Build suite.data.Samples from the arrays.",
        )
    _check_array(workload, "dense", samples.dense, np.float32, (size, workload.model.dense_features))
    _check_array(workload, "labels", samples.labels, np.float32, (size,))
    if not np.isfinite(samples.dense).all():
        raise _refused(
            workload, "dense holds values that are not finite.", "Replace missing values by a number."
        )
    wrong_labels = samples.labels[(samples.labels != 0) & (samples.labels != 1)]
    if wrong_labels.size:
        raise _refused(workload, f"labels hold {wrong_labels[0]}.", "Labels are 0 or 1.")
    if not isinstance(samples.sparse, Mapping):
        raise _refused(
            workload,
            f"sparse is a {type(samples.sparse).__name__}.",
            "Give a dict of (ids, lengths) by feature name.",
        )
    for table in workload.tables:
        for feature in table.features:
            _check_feature(samples, workload, table, feature, size)


def _check_feature(
    samples: Samples, workload: WorkloadSpec, table: TableSpec, feature: str, size: int
) -> None:
    if feature not in samples.sparse:
        raise _refused(
            workload,
            f"its samples have no feature {feature!r}.",
            f"Give every feature of the workload's tables: {list(workload.features)}.",
        )
    pair = samples.sparse[feature]
    if not (isinstance(pair, tuple) and len(pair) == 2):
        raise _refused(
            workload,
            f"feature {feature!r} is a {type(pair).__name__}.",
            "Give a pair (ids, lengths) of arrays.",
        )
    ids, lengths = pair
    _check_array(workload, f"lengths of {feature}", lengths, np.int32, (size,))
    if (lengths < 0).any():
        raise _refused(workload, f"lengths of {feature} hold {lengths.min()}.", "Lengths are 0 or more.")
    _check_array(workload, f"ids of {feature}", ids, np.int64, (int(lengths.sum()),))
    outside = ids[(ids < 0) | (ids >= table.rows)]
    if outside.size:
        raise ConfigError(
            f"tables.{table.name}.rows",
            table.rows,
            f"{workload.data.source} gives id {outside[0]} for feature {feature!r}.",
            "Map the ids to [0, rows), or give the table more rows.",
            kind="bad_data",
        )


def _check_array(
    workload: WorkloadSpec, what: str, array: np.ndarray, dtype: type, shape: tuple[int, ...]
) -> None:
    if not isinstance(array, np.ndarray):
        raise _refused(workload, f"{what} is a {type(array).__name__}.", "Give a numpy array.")
    if array.dtype != dtype:
        raise _refused(workload, f"{what} has dtype {array.dtype}.", f"Give {np.dtype(dtype)}.")
    if array.shape != shape:
        raise _refused(
            workload,
            f"{what} has shape {list(array.shape)}; {list(shape)} was expected.",
            "See suite.data.Samples for the shapes.",
        )


def _refused(workload: WorkloadSpec, message: str, remedy: str) -> ConfigError:
    return ConfigError("data.source", workload.data.source, message, remedy, kind="bad_data")
