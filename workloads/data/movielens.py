"""MovieLens 100K as a click-through problem: will this user rate this film 4 or higher?

See ``movielens_files`` for where the files come from, and for GroupLens's terms of use.

Features (a workload's tables name any of them, with at least these many rows):

| feature | rows | ids per sample |
| --- | --- | --- |
| `user_id` | 943 | 1 |
| `item_id` | 1,682 | 1 |
| `age` | 7 | 1: under 18, 18, 25, 35, 45, 50, 56 and over, GroupLens's own brackets |
| `gender` | 2 | 1 |
| `occupation` | 21 | 1 |
| `zip_region` | 101 | 1: the first two digits of the US zip code; 100 for Canadian ones |
| `release_year` | 80 | 1: year - 1919; 0 where it is unknown |
| `genres` | 19 | 1 to 6 |

Dense features: the user's age, the film's age when it was rated, and the time of the rating within the seven
months of collection, each scaled to about [-1, 1]. All three are known before the rating is. Nothing
counts or averages ratings, which would carry labels of the evaluation split into training.

Split: a random 80 % of the ratings, drawn by ``split_seed``, train; the others evaluate. The run's seed
decides only the order of training: an endless sequence of epochs, each a new permutation.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from suite.data import DataSource, Samples
from suite.spec import Frozen, WorkloadSpec, validated
from workloads.data.counter_random import key, permutation
from workloads.data.movielens_files import (
    GENRES,
    ITEMS,
    OCCUPATIONS,
    RATINGS,
    USERS,
    MovieLensFiles,
    embedded_folder,
    read_atomic,
    read_grouplens,
)
from workloads.data.movielens_fit import refuse_misfits

TRAIN_SAMPLES = RATINGS * 8 // 10
AGE_BRACKETS = (18, 25, 35, 45, 50, 56)
FIRST_YEAR, YEARS = 1920, 79
CANADA = 100
DENSE_FEATURES = ("user age", "film age", "time")
#: Smallest table that holds each feature's ids.
FEATURE_ROWS = {
    "user_id": USERS,
    "item_id": ITEMS,
    "age": len(AGE_BRACKETS) + 1,
    "gender": 2,
    "occupation": len(OCCUPATIONS),
    "zip_region": CANADA + 1,
    "release_year": YEARS + 1,
    "genres": len(GENRES),
}


class MovieLensOptions(Frozen):
    """``data.options`` of MovieLens."""

    #: A rating of at least this is a click.
    threshold: Annotated[int, Field(ge=2, le=5)] = 4
    split_seed: Annotated[int, Field(ge=0, lt=2**31)] = 0


class MovieLens(DataSource):
    """See the module's docstring."""

    @classmethod
    def check(cls, workload: WorkloadSpec) -> None:
        """Refuses wrong options, unknown features, tables too small, and missing or damaged files."""
        validated(MovieLensOptions, workload.data.options, "data.options.")
        refuse_misfits(workload, FEATURE_ROWS, DENSE_FEATURES)
        _read(workload)

    def __init__(self, workload: WorkloadSpec, seed: int) -> None:
        self._workload = workload
        self._options = validated(MovieLensOptions, workload.data.options, "data.options.")
        self._seed = seed
        self._files = _read(workload)
        order = permutation(key("movielens split", self._options.split_seed), RATINGS)
        self._train_rows, self._evaluation_rows = order[:TRAIN_SAMPLES], order[TRAIN_SAMPLES:]

    def train(self, start: int, stop: int) -> Samples:
        """Samples [start, stop): sample i is number i % n of the permutation of epoch i // n."""
        epoch, position = np.divmod(np.arange(start, stop), TRAIN_SAMPLES)
        parts = [_epoch_order(self._seed, int(e))[position[epoch == e]] for e in np.unique(epoch)]
        chosen = np.concatenate(parts) if parts else np.empty(0, np.int64)
        return self._samples(self._train_rows[chosen])

    @property
    def evaluation_size(self) -> int:
        """20,000."""
        return RATINGS - TRAIN_SAMPLES

    def evaluation(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of the 20 % that are never trained on."""
        return self._samples(self._evaluation_rows[start:stop])

    def describe(self) -> dict[str, Any]:
        """``fingerprint`` is that of the files' content, the same for both layouts."""
        return {
            "source": "MovieLens 100K (GroupLens), "
            + ("own folder" if self._workload.data.location else "files in recbole 1.2.1"),
            "fingerprint": self._files.fingerprint,
            "split": f"random 80/20, split_seed {self._options.split_seed}",
            "train_samples": TRAIN_SAMPLES,
            "evaluation_samples": self.evaluation_size,
            "base_rate": float(self._labels[self._evaluation_rows].mean(dtype=np.float64)),
        }

    def _samples(self, rows: np.ndarray) -> Samples:
        one = np.ones(len(rows), np.int32)
        sparse = {
            feature: self._genres(rows) if feature == "genres" else (self._ids[feature][rows], one)
            for feature in self._workload.features
        }
        return Samples(dense=self._dense[rows], labels=self._labels[rows], sparse=sparse)

    def _genres(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sample, genre = np.nonzero(self._files.genres[self._files.item[rows]])
        return genre, np.bincount(sample, minlength=len(rows)).astype(np.int32)

    @cached_property
    def _labels(self) -> np.ndarray:
        return (self._files.rating >= self._options.threshold).astype(np.float32)

    @cached_property
    def _ids(self) -> dict[str, np.ndarray]:
        """Id of each rating for every feature with one id, int64 [RATINGS]."""
        files = self._files
        american = np.char.isdigit(files.zip_code)
        region = np.where(american, files.zip_code.astype("S2"), str(CANADA).encode()).astype(np.int64)
        per_user = {
            "age": np.searchsorted(AGE_BRACKETS, files.age, side="right"),
            "gender": files.gender,
            "occupation": files.occupation,
            "zip_region": region,
        }
        year = np.where(files.year > 0, np.clip(files.year - FIRST_YEAR + 1, 1, YEARS), 0)
        return {
            "user_id": files.user,
            "item_id": files.item,
            "release_year": year[files.item],
            **{feature: ids[files.user] for feature, ids in per_user.items()},
        }

    @cached_property
    def _dense(self) -> np.ndarray:
        """float32 [RATINGS, 3], columns as DENSE_FEATURES."""
        files = self._files
        moment = files.timestamp.astype("datetime64[s]")
        rated = moment.astype("datetime64[Y]").astype(np.int64) + 1970
        year = files.year[files.item]
        film_age = np.where(year > 0, rated - year, 0)
        # The archive's README: collected from 1997-09-19 to 1998-04-22.
        first, last = np.datetime64("1997-09-19", "s"), np.datetime64("1998-04-23", "s")
        time = (moment - first) / (last - first)
        columns = (files.age[files.user] / 35 - 1, film_age / 35 - 1, 2 * time - 1)
        return np.stack(columns, axis=1).astype(np.float32)


def _read(workload: WorkloadSpec) -> MovieLensFiles:
    if workload.data.location is None:
        return read_atomic(embedded_folder())
    return read_grouplens(Path(workload.data.location))


@lru_cache(maxsize=2)
def _epoch_order(seed: int, epoch: int) -> np.ndarray:
    return permutation(key("movielens epoch", seed, epoch), TRAIN_SAMPLES)
