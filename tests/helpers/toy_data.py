"""A data source of a few lines: samples whose label is the sign of their only dense feature."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.data import DataSource, Samples
from suite.spec import WorkloadSpec

EVALUATION = 25


class ToySource(DataSource):
    """One dense feature, one sparse feature ``item`` with ``index % 3`` ids a sample."""

    def __init__(self, workload: WorkloadSpec, seed: int) -> None:
        self._rows = workload.tables[0].rows
        self.size = EVALUATION

    def train(self, start: int, stop: int) -> Samples:
        index = np.arange(start, stop)
        dense = np.sin(index).astype(np.float32).reshape(-1, 1)
        lengths = (index % 3).astype(np.int32)
        return Samples(
            dense=dense,
            labels=(dense[:, 0] > 0).astype(np.float32),
            sparse={"item": (np.repeat(index % self._rows, lengths), lengths)},
        )

    @property
    def evaluation_size(self) -> int:
        return self.size

    def evaluation(self, start: int, stop: int) -> Samples:
        return self.train(1_000_000 + start, 1_000_000 + stop)

    def describe(self) -> dict[str, Any]:
        return {"fingerprint": "toy", "split": "the toy's own"}


class OneWrongId(ToySource):
    """Sample 40, a rank's own in step 4 of batches of 9, holds an id that no table has."""

    def train(self, start: int, stop: int) -> Samples:
        samples = super().train(start, stop)
        if start <= 40 < stop:
            ids, _ = samples.sparse["item"]
            ids[-1] = 2**40
        return samples
