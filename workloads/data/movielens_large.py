"""MovieLens 1M, 10M, 20M, 25M and 32M, from a folder of your own with GroupLens's files.

The label is as in ``movielens``: will this user rate this film ``threshold`` or higher? Features, of which a
workload's tables name any: `user_id`, `item_id` (the film's line in the file of films), `release_year` (year
- 1899, 0 where it is unknown), and `genres` (``GENRES``; a film with none listed has an empty bag). Dense
features: the film's age when it was rated, and the time of the rating between the first and the last of the
data set. Both are known before the rating is. GroupLens's terms of use, and how to cite the data:
``movielens_files``.

| data set | ratings in | films in | lines |
| --- | --- | --- | --- |
| 1M, 10M | `ratings.dat` | `movies.dat` | `1::1193::5::978300760`; films in latin-1 (1M) or UTF-8 |
| 20M, 25M, 32M | `ratings.csv` | `movies.csv` | `1,296,5.0,1147880044` after a header |

Split: a random 80 % of the ratings, drawn by ``split_seed``, train; of the others the first
``evaluation_samples`` evaluate. The run's seed decides the order of training, an endless sequence of epochs,
each a new permutation. Permutations are computed and not stored, and ratings are mapped from a binary copy
(``text_copy``), so that memory does not grow with the data.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from suite.data import DataSource, Samples
from suite.errors import ConfigError
from suite.spec import Frozen, WorkloadSpec, validated
from workloads.data.counter_random import key, permuted
from workloads.data.delimited import BadLine, Fields, decimals
from workloads.data.movielens_fit import refuse_misfits
from workloads.data.text_copy import (
    FIELD,
    Expected,
    Sha256Option,
    TextCopy,
    TextFormat,
    open_copy,
    refuse,
    refuse_other_content,
    refuse_unread,
)

Size = Literal["1m", "10m", "20m", "25m", "32m"]
GENRES = (
    *("Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama", "Fantasy"),
    *("Film-Noir", "Horror", "IMAX", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
)
NONE_LISTED = "(no genres listed)"
_FILMS_HEADER = "movieId,title,genres"
FIRST_YEAR, YEARS = 1900, 124
DENSE_FEATURES = ("film age", "time")


class Facts(NamedTuple):
    """What GroupLens's README says of a data set. ``users`` is the largest user id."""

    ratings: int
    users: int
    films: int


FACTS: dict[Size, Facts] = {
    "1m": Facts(1_000_209, 6_040, 3_883),
    "10m": Facts(10_000_054, 71_567, 10_681),
    "20m": Facts(20_000_263, 138_493, 27_278),
    "25m": Facts(25_000_095, 162_541, 62_423),
    "32m": Facts(32_000_204, 200_948, 87_585),
}


def feature_rows(size: Size) -> dict[str, int]:
    """Smallest table that holds each feature's ids."""
    facts = FACTS[size]
    return {
        "user_id": facts.users,
        "item_id": facts.films,
        "release_year": YEARS + 1,
        "genres": len(GENRES),
    }


class MovieLensLargeOptions(Frozen):
    """``data.options`` of MovieLensLarge."""

    size: Size
    threshold: Annotated[float, Field(gt=0.5, le=5, multiple_of=0.5)] = 4.0
    split_seed: Annotated[int, Field(strict=True, ge=0, lt=2**31)] = 0
    evaluation_samples: Annotated[int, Field(strict=True, ge=1)] = 100_000
    #: ``published``: the files are whole. ``any``: a part of the data set will do.
    lines: Literal["published", "any"] = "published"
    #: Of files, by their names, where it is known.
    sha256: Sha256Option = Field(default_factory=dict)


class Films(NamedTuple):
    """The films, in the order of their file.

    Attributes:
        place: int64 [largest id + 1], a film's line by its id; -1 where there is none.
        year: int64 [films], 0 where it is unknown.
        genres: bool [films, 19], columns as GENRES.
        sha256: of the file.
    """

    place: np.ndarray
    year: np.ndarray
    genres: np.ndarray
    sha256: str


class MovieLensLarge(DataSource):
    """See the module's docstring."""

    @classmethod
    def check(cls, workload: WorkloadSpec) -> None:
        """Refuses wrong options, unknown features, tables too small, and missing or damaged files.

        The first time it reads the ratings through, which takes seconds to a minute.
        """
        cls(workload, seed=0)

    def __init__(self, workload: WorkloadSpec, seed: int) -> None:
        self._options = validated(MovieLensLargeOptions, workload.data.options, "data.options.")
        refuse_misfits(workload, feature_rows(self._options.size), DENSE_FEATURES)
        if workload.data.location is None:
            raise ConfigError(
                FIELD,
                None,
                f"no folder with MovieLens {self._options.size.upper()} is named.",
                "Give --data FOLDER, an archive of GroupLens's unpacked whole.",
                kind="missing_data",
            )
        self._workload, self._seed = workload, seed
        folder = Path(workload.data.location)
        self._films = _films(folder, self._options)
        ending = "csv" if _is_csv(self._options.size) else "dat"
        refuse_unread(self._options.sha256, folder, [f"ratings.{ending}", f"movies.{ending}"])
        self._ratings = _ratings(folder, self._options)
        self._total = len(self._ratings)
        self._train_size = self._total * 8 // 10
        if self._train_size == 0:
            refuse(self._ratings.path, "it has too few ratings to split.", "Give more of the data set.")
        self._check_ids()

    def train(self, start: int, stop: int) -> Samples:
        """Samples [start, stop): sample i is number i % n of the permutation of epoch i // n."""
        epoch, position = np.divmod(np.arange(start, stop), self._train_size)
        for e in np.unique(epoch):
            stream = key("movielens large epoch", self._seed, int(e))
            position[epoch == e] = permuted(stream, position[epoch == e], self._train_size)
        return self._samples(self._rows(position))

    @property
    def evaluation_size(self) -> int:
        """The option ``evaluation_samples``, or what there is."""
        return min(self._options.evaluation_samples, self._total - self._train_size)

    def evaluation(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of the 20 % that are never trained on."""
        stop = min(stop, self.evaluation_size)
        return self._samples(self._rows(self._train_size + np.arange(start, stop)))

    def describe(self) -> dict[str, Any]:
        """``fingerprint`` is that of both files' content."""
        labels = self.evaluation(0, self.evaluation_size).labels
        content = f"{self._ratings.manifest.text.sha256} {self._films.sha256}"
        return {
            "source": f"MovieLens {self._options.size.upper()} (GroupLens), own folder",
            "fingerprint": hashlib.sha256(content.encode()).hexdigest(),
            "split": f"random 80/20, split_seed {self._options.split_seed}",
            "train_samples": self._train_size,
            "evaluation_samples": self.evaluation_size,
            "base_rate": float(labels.mean(dtype=np.float64)),
        }

    def _rows(self, position: np.ndarray) -> np.ndarray:
        """Ratings by their place in the split."""
        return permuted(key("movielens large split", self._options.split_seed), position, self._total)

    def _check_ids(self) -> None:
        """That every rating is of a film that there is, by a user whose id fits."""
        users = feature_rows(self._options.size)["user_id"]
        user, film = self._ratings.arrays["user"], self._ratings.arrays["film"]
        for start in range(0, self._total, 2**20):
            part = slice(start, start + 2**20)
            place = self._films.place[np.minimum(film[part], len(self._films.place) - 1)]
            wrong = (film[part] >= len(self._films.place)) | (place < 0)
            for what, bad, ids in (("film", wrong, film), ("user", user[part] > users, user)):
                if bad.any():
                    row = start + int(np.flatnonzero(bad)[0])
                    refuse(
                        self._ratings.path,
                        f"rating number {row + 1:,} has {what} {ids[row]}, which there is not.",
                        "Give the files of one data set, and its size.",
                    )

    def _samples(self, rows: np.ndarray) -> Samples:
        ratings = {name: np.asarray(array[rows]) for name, array in self._ratings.arrays.items()}
        film = self._films.place[ratings["film"]]
        one = np.ones(len(rows), np.int32)
        year = self._films.year[film]
        found = {
            "user_id": (ratings["user"].astype(np.int64) - 1, one),
            "item_id": (film, one),
            "release_year": (np.where(year > 0, np.clip(year - FIRST_YEAR + 1, 1, YEARS), 0), one),
            "genres": self._genres(film),
        }
        first, last = self._period
        moment = ratings["time"]
        rated = moment.astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970
        dense = (np.where(year > 0, rated - year, 0) / 35 - 1, 2 * (moment - first) / (last - first) - 1)
        return Samples(
            dense=np.stack(dense, axis=1).astype(np.float32),
            labels=(ratings["half_stars"] >= 2 * self._options.threshold).astype(np.float32),
            sparse={feature: found[feature] for feature in self._workload.features},
        )

    def _genres(self, film: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sample, genre = np.nonzero(self._films.genres[film])
        return genre, np.bincount(sample, minlength=len(film)).astype(np.int32)

    @cached_property
    def _period(self) -> tuple[int, int]:
        time = self._ratings.arrays["time"]
        return int(time.min()), max(int(time.max()), int(time.min()) + 1)


def _ratings(folder: Path, options: MovieLensLargeOptions) -> TextCopy:
    """Arrays ``user``, ``film``, ``half_stars`` (1 to 10) and ``time`` (Unix seconds), one a rating."""
    arrays = {"user": ("<i4", 1), "film": ("<i4", 1), "half_stars": ("u1", 1), "time": ("<i8", 1)}
    lines = FACTS[options.size].ratings if options.lines == "published" else None
    remedy = "Fetch it again; for a part of the data set set lines to any."
    expected = Expected(lines, remedy, options.sha256)
    if _is_csv(options.size):
        header = "userId,movieId,rating,timestamp"
        form = TextFormat(4, ",", arrays, lambda f: _parsed(f, (0, 1, 2, 3)), len("1,1,1,1\n"), header)
        return open_copy(folder, "ratings.csv", form, expected)
    # Between the two colons there is an empty field.
    form = TextFormat(7, ":", arrays, lambda f: _parsed(f, (0, 2, 4, 6)), len("1::1::1::1\n"))
    return open_copy(folder, "ratings.dat", form, expected)


def _is_csv(size: Size) -> bool:
    return size not in ("1m", "10m")


def _parsed(fields: Fields, columns: tuple[int, ...]) -> Mapping[str, np.ndarray]:
    last = fields.ends.shape[1] - 1
    # The file may have been written on Windows.
    fields.ends[:, last] -= fields.text[fields.ends[:, last] - 1] == ord("\r")
    between = [column for column in range(last) if column not in columns]
    filled = np.argwhere(fields.ends[:, between] != fields.starts[:, between])
    if len(filled):
        raise BadLine(fields.first_line + int(filled[0][0]), "its fields are not separated by '::'")
    user, film, stars, time = (fields.columns(column, column + 1) for column in columns)
    return {
        "user": decimals(user, "user", 1, 2**31 - 1)[:, 0],
        "film": decimals(film, "film", 1, 2**31 - 1)[:, 0],
        "half_stars": _half_stars(stars),
        "time": decimals(time, "time", 1, 2**40)[:, 0],
    }


def _half_stars(fields: Fields) -> np.ndarray:
    """``3`` and ``3.0`` are 6, ``3.5`` is 7."""
    starts, lengths = fields.starts[:, 0], fields.ends[:, 0] - fields.starts[:, 0]
    whole, dot, half = (fields.text[np.minimum(starts + i, len(fields.text) - 1)] for i in range(3))
    short = lengths == 1
    good = short | ((lengths == 3) & (dot == ord(".")) & ((half == ord("0")) | (half == ord("5"))))
    found = 2 * (whole.astype(np.int64) - ord("0")) + (~short & (half == ord("5")))
    good &= (found >= 1) & (found <= 10)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise BadLine(
            fields.first_line + row, f"rating {fields.field(row, 0)!r} is not 0.5 to 5 in half stars"
        )
    return found


def _films(folder: Path, options: MovieLensLargeOptions) -> Films:
    path = folder / ("movies.csv" if _is_csv(options.size) else "movies.dat")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            FIELD,
            str(path),
            f"{path.name} cannot be read: {error.strerror}.",
            "Give the folder of GroupLens's archive, unpacked whole.",
            kind="missing_data",
        ) from error
    sha256 = hashlib.sha256(raw).hexdigest()
    refuse_other_content(path, sha256, options.sha256)
    again = "Unpack GroupLens's archive again."
    is_csv = _is_csv(options.size)
    text = raw.decode("latin-1" if options.size == "1m" else "utf-8", "replace")
    *lines, rest = text.replace("\r\n", "\n").split("\n")
    if rest:
        refuse(path, f"line {len(lines) + 1:,}: it is cut short: the file ends without a newline.", again)
    if is_csv and lines[:1] != [_FILMS_HEADER]:
        refuse(path, f"line 1: it is not {_FILMS_HEADER!r}.", again)
    ids: list[int] = []
    years, genres = [], []
    first = 2 if is_csv else 1
    for number, line in enumerate(lines[first - 1 :], start=first):
        try:
            # A line at a time, so that a quote without an end spoils its own line and not all that follow.
            row = next(csv.reader([line])) if is_csv else line.split("::")
        except csv.Error as error:
            refuse(path, f"line {number:,}: {str(error).partition(' - ')[0]}.", again)
        if len(row) != 3 or not (row[0].isascii() and row[0].isdecimal() and len(row[0]) < 10):
            refuse(path, f"line {number:,}: it is not an id, a title and genres.", again)
        named = [] if row[2] in (NONE_LISTED, "") else row[2].replace("Children's", "Children").split("|")
        unknown = sorted(set(named) - set(GENRES))
        if unknown:
            refuse(path, f"line {number:,}: unknown genre {unknown[0]!r}.", again)
        found = re.findall(r"\((\d{4})\)", row[1])
        ids.append(int(row[0]))
        years.append(int(found[-1]) if found else 0)
        genres.append([genre in named for genre in GENRES])
    if options.lines == "published" and len(ids) != FACTS[options.size].films:
        refuse(path, f"it has {len(ids):,} films, not {FACTS[options.size].films:,}.", again)
    if not ids or len(set(ids)) < len(ids) or len(ids) > FACTS[options.size].films or max(ids) >= 2**24:
        refuse(path, "it has no films, too many, or one twice.", again)
    place = np.full(max(ids) + 1, -1, np.int64)
    place[ids] = np.arange(len(ids))
    return Films(place, np.array(years), np.array(genres), sha256)
