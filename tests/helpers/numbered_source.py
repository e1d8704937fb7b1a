"""A data source whose samples are numbers: equal numbers are equal samples. For the workload ``smoke``."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.data import DataSource, Samples

FEATURES, DENSE_FEATURES = ("user", "item", "words", "city"), 4


class NumberedSource(DataSource):
    """Evaluates on ``evaluation``, trains on ``stream``, which ends. Odd numbers are clicks."""

    def __init__(self, evaluation: np.ndarray, stream: np.ndarray, split: str = "evaluation") -> None:
        self._evaluation, self._stream, self._split = evaluation, stream, split

    def train(self, start: int, stop: int) -> Samples:
        if stop > len(self._stream):
            raise EOFError
        return self._samples(self._stream[start:stop])

    @property
    def evaluation_size(self) -> int:
        return len(self._evaluation)

    def evaluation(self, start: int, stop: int) -> Samples:
        return self._samples(self._evaluation[start:stop])

    def describe(self) -> dict[str, Any]:
        return {"split": self._split}

    def _samples(self, numbers: np.ndarray) -> Samples:
        assert not numbers.size or numbers.max() < 2**24  # exact in float32
        dense = np.zeros((len(numbers), DENSE_FEATURES), np.float32)
        dense[:, 0] = numbers
        ids, one = numbers % 80, np.ones(len(numbers), np.int32)
        return Samples(dense, (numbers % 2).astype(np.float32), dict.fromkeys(FEATURES, (ids, one)))
