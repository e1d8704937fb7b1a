"""The small model's global batches as a data source: step s of G samples is ``global_batch(s, G)``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from suite.data import DataSource, Samples
from suite.oracle.batch import GlobalBatch
from suite.spec import WorkloadSpec
from tests.helpers.training import global_batch

#: A folder that takes a file for each process that trains.
PROCESSES = "SMALL_SOURCE_PROCESSES"


class SmallSource(DataSource):
    """Asked for whole steps only. The evaluation split is step 999."""

    EVALUATION = 96

    def __init__(self, workload: WorkloadSpec, seed: int) -> None:
        self._features = workload.features

    def train(self, start: int, stop: int) -> Samples:
        """Samples of one step."""
        size = stop - start
        assert start % size == 0
        return self._samples(global_batch(start // size, size))

    @property
    def evaluation_size(self) -> int:
        """Samples."""
        return self.EVALUATION

    def evaluation(self, start: int, stop: int) -> Samples:
        """Samples."""
        return self._samples(global_batch(999, self.EVALUATION).part(start, stop))

    def describe(self) -> dict[str, Any]:
        """Its split."""
        return {"split": "evaluation"}

    def _samples(self, batch: GlobalBatch) -> Samples:
        return Samples(
            batch.dense.numpy(),
            batch.labels.numpy(),
            {
                feature: (
                    np.array([i for bag in batch.bags[feature] for i in bag], dtype=np.int64),
                    np.array([len(bag) for bag in batch.bags[feature]], dtype=np.int32),
                )
                for feature in self._features
            },
        )


class Telling(SmallSource):
    """Tells which processes train."""

    def train(self, start: int, stop: int) -> Samples:
        """Samples of one step."""
        Path(os.environ[PROCESSES], str(os.getpid())).touch()
        return super().train(start, stop)


class Deadly(SmallSource):
    """As a training that the kernel ends for want of memory."""

    def train(self, start: int, stop: int) -> Samples:
        """None."""
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class Unfit(Exception):
    """It cannot go from process to process, as those of many libraries."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)


class Raising(SmallSource):
    """Raises such an error."""

    def train(self, start: int, stop: int) -> Samples:
        """None."""
        raise Unfit(1, "two")


class Leaving(SmallSource):
    """As a script that was made a module."""

    def train(self, start: int, stop: int) -> Samples:
        """None."""
        print("goodbye")
        sys.exit(7)
