"""A data source of your own: a function that yields samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from suite.data import Samples
from suite.spec import WorkloadSpec

BLOCK = 1_000


def clicks(workload: WorkloadSpec, seed: int) -> Iterator[Samples]:
    """An endless stream in blocks of any size. Yours would read files, perhaps at ``workload.data.location``.

    It must depend on its arguments alone: every rank calls it and keeps its own share of the samples.
    """
    random = np.random.default_rng(seed)
    users, genres = (table.rows for table in workload.tables)
    while True:
        user = random.integers(0, users, BLOCK)  # int64, one id a sample
        genre_count = random.integers(0, 4, BLOCK, dtype=np.int32)  # none to three ids a sample
        genre = random.integers(0, genres, genre_count.sum())
        dense = random.standard_normal((BLOCK, workload.model.dense_features), dtype=np.float32)
        click = (user % 2 == 0) ^ (dense[:, 0] > 1)
        yield Samples(
            dense=dense,
            labels=click.astype(np.float32),
            sparse={"user": (user, np.ones(BLOCK, np.int32)), "genres": (genre, genre_count)},
        )
