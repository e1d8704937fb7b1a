"""The files of MovieLens 100K, in either of two layouts, read into one canonical form.

- *Atomic files* (``ml-100k.inter``, ``.user``, ``.item``): inside the wheel of recbole 1.2.1, which is
  installed without its dependencies and never imported. Their SHA-256 is checked.
- *GroupLens's own layout* (``u.data``, ``u.user``, ``u.item``, ``u.genre``, in latin-1): a user's own
  unpacked ``ml-100k`` folder. The SHA-256 of what is read from each file is checked.

The layouts differ in how an item is written: GroupLens puts the year of release at the end of the
title, "Toy Story (1995)" (the separate release date is the American one, often a year later), and
genres as 19 flags; the atomic files have a year column, which holds "V" where the title ends in
"(1995) (V)", a mark for video, and genres as words. Both read to equal arrays, and so to one fingerprint.

Terms of use: the data belong to GroupLens, University of Minnesota. They may be used for research, with
acknowledgement (F. M. Harper and J. A. Konstan, "The MovieLens Datasets: History and Context", ACM TiiS
5(4), 2015), without implying endorsement by the university or GroupLens; they may not be redistributed, nor
used commercially, without GroupLens's permission. The README in GroupLens's archive has the full text.
This project ships none of the data.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

import numpy as np

from suite.errors import ConfigError

Row = TypeVar("Row")
USERS, ITEMS, RATINGS = 943, 1_682, 100_000
GENRES = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *(
        "Fantasy",
        "Film-Noir",
        "Horror",
        "Musical",
        "Mystery",
        "Romance",
        "Sci-Fi",
        "Thriller",
        "War",
        "Western",
    ),
)
OCCUPATIONS = (
    *(
        "administrator",
        "artist",
        "doctor",
        "educator",
        "engineer",
        "entertainment",
        "executive",
        "healthcare",
    ),
    *("homemaker", "lawyer", "librarian", "marketing", "none", "other", "programmer", "retired", "salesman"),
    *("scientist", "student", "technician", "writer"),
)
ATOMIC_SHA256 = {
    "ml-100k.inter": "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
    "ml-100k.user": "4f670007d9cfbeb9807e757209af1555b9bcc186bde25e767f67cb67c6dd5972",
    "ml-100k.item": "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
}
#: By file of GroupLens's layout: what is read from it, and its SHA-256. Not of the file's bytes, so that line
#: ends and the order of ratings do not matter.
CONTENT_SHA256 = {
    "u.data": (
        ("user", "item", "rating", "timestamp"),
        "2318eec319c06247d789438be00b93969c9bf553fdd1aa0c547e76a010d8f27e",
    ),
    "u.user": (
        ("age", "gender", "occupation", "zip_code"),
        "fc201babeecb2e64d0ce7c792f9110fa4844166092bf2b73255e22e6aaf8ab59",
    ),
    "u.item": (
        ("year", "genres"),
        "36611bb4fff6c307169c59d1b2a0e160769f40ea5be0dd153147580551c98a9c",
    ),
}


@dataclass(frozen=True)
class MovieLensFiles:
    """What the files say, in an order of its own: ratings by (user, item), all ids from 0.

    Attributes:
        user, item, rating, timestamp: int64 [RATINGS]; rating 1 to 5; timestamp in Unix seconds.
        age, gender, occupation: int64 [USERS]; gender 0 is "F", 1 is "M"; occupation indexes OCCUPATIONS.
        zip_code: bytes of length 5 [USERS].
        year: int64 [ITEMS], 0 where it is unknown.
        genres: bool [ITEMS, 19], columns as GENRES.
    """

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray
    timestamp: np.ndarray
    age: np.ndarray
    gender: np.ndarray
    occupation: np.ndarray
    zip_code: np.ndarray
    year: np.ndarray
    genres: np.ndarray

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical content, the same for both layouts."""
        return self.sha256([field.name for field in fields(self)])

    def sha256(self, names: Iterable[str]) -> str:
        """SHA-256 of some of the arrays."""
        digest = hashlib.sha256()
        for name in names:
            digest.update(name.encode() + getattr(self, name).tobytes())
        return digest.hexdigest()


def read_atomic(folder: Path) -> MovieLensFiles:
    """Reads the atomic files.

    Raises:
        ConfigError: a file is missing or its SHA-256 differs.
    """
    remedy = "Install it again: pip install --force-reinstall --no-deps recbole==1.2.1"
    text = {}
    for name, expected in ATOMIC_SHA256.items():
        content = _content(folder / name, "data.source", remedy)
        if hashlib.sha256(content).hexdigest() != expected:
            raise ConfigError(
                "data.source",
                str(folder / name),
                f"{name} is damaged, truncated, or not the file of recbole 1.2.1: its SHA-256 differs.",
                remedy,
            )
        text[name] = content.decode().split("\n", 1)[1]  # the first line names the columns
    return _assembled(
        _ratings(folder / "ml-100k.inter", text["ml-100k.inter"], "data.source"),
        _rows(folder / "ml-100k.user", text["ml-100k.user"], "\t", 5, USERS, "data.source", _user),
        _rows(folder / "ml-100k.item", text["ml-100k.item"], "\t", 4, ITEMS, "data.source", _atomic_item),
    )


def read_grouplens(folder: Path) -> MovieLensFiles:
    """Reads GroupLens's own layout.

    Raises:
        ConfigError: no such folder, a file is missing, has another number of lines than MovieLens 100K, a
            line does not read, or all do and say something else; the error names the file and the line.
    """
    field = "data.location"
    here = "Give the folder that holds u.data, u.user, u.item, u.genre."
    try:
        is_folder = folder.is_dir()
    except OSError as error:  # no permission on a folder above it, or a name too long to be one
        raise ConfigError(field, str(folder), f"it cannot be looked at: {error.strerror}.", here) from error
    if not is_folder:
        raise ConfigError(field, str(folder), "there is no such folder.", here)
    remedy = "Give the folder of GroupLens's ml-100k archive, unpacked whole."
    text = {
        name: _content(folder / name, field, remedy).decode("latin-1").replace("\r\n", "\n")
        for name in ("u.data", "u.user", "u.item", "u.genre")
    }
    columns = [line.rpartition("|")[0] for line in text["u.genre"].split("\n") if line]
    if sorted(columns) != sorted(GENRES):
        raise _damaged(field, folder / "u.genre", f"the genres are not the {len(GENRES)} of MovieLens 100K")
    order = [columns.index(genre) for genre in GENRES]

    def item(cells: list[str]) -> tuple[int, list[bool]]:
        flags = cells[5:]
        if set(flags) - {"0", "1"}:
            raise ValueError("a genre flag is neither 0 nor 1")
        return _year_in(cells[1]), [flags[column] == "1" for column in order]

    files = _assembled(
        _ratings(folder / "u.data", text["u.data"], field),
        _rows(folder / "u.user", text["u.user"], "|", 5, USERS, field, _user),
        _rows(folder / "u.item", text["u.item"], "|", 5 + len(GENRES), ITEMS, field, item),
    )
    for name, (arrays, expected) in CONTENT_SHA256.items():
        if files.sha256(arrays) != expected:
            what = f"its lines read, but some {' or '.join(arrays)} is not MovieLens 100K's (by SHA-256)"
            raise _damaged(field, folder / name, what)
    return files


def embedded_folder() -> Path:
    """The folder of the atomic files inside the installed recbole, found without importing it.

    Raises:
        ConfigError: it is not installed.
    """
    package = importlib.util.find_spec("recbole")
    if package is None or not package.submodule_search_locations:
        raise ConfigError(
            "data.source",
            "recbole",
            "MovieLens 100K is read from the files in recbole 1.2.1, which is not installed.",
            "pip install --no-deps recbole==1.2.1, or give your own ml-100k folder as data.location.",
            kind="missing_data",
        )
    return Path(package.submodule_search_locations[0]) / "dataset_example" / "ml-100k"


def _assembled(
    ratings: np.ndarray, users: list[tuple[int, int, int, bytes]], items: list[tuple[int, list[bool]]]
) -> MovieLensFiles:
    user, item, rating, timestamp = np.ascontiguousarray(ratings.T)
    age, gender, occupation, zip_code = zip(*users, strict=True)
    year, genres = zip(*items, strict=True)
    return MovieLensFiles(
        user=user - 1,
        item=item - 1,
        rating=rating,
        timestamp=timestamp,
        age=np.array(age, np.int64),
        gender=np.array(gender, np.int64),
        occupation=np.array(occupation, np.int64),
        zip_code=np.array(zip_code, "S5"),
        year=np.array(year, np.int64),
        genres=np.array(genres, bool),
    )


def _ratings(path: Path, text: str, field: str) -> np.ndarray:
    """int64 [RATINGS, 4]: user, item, rating, timestamp, sorted by (user, item)."""
    if not text:
        raise _damaged(field, path, "it is empty")
    try:
        table = np.loadtxt(io.StringIO(text), dtype=np.int64, delimiter="\t", ndmin=2, comments=None)
    except (ValueError, OverflowError) as error:
        raise _damaged(field, path, str(error).split(";")[0]) from error
    if table.shape != (RATINGS, 4):
        raise _damaged(field, path, f"{table.shape[0]} lines of {table.shape[1]} columns, not {RATINGS} of 4")
    for column, (what, largest) in enumerate((("user", USERS), ("item", ITEMS), ("rating", 5))):
        wrong = np.flatnonzero((table[:, column] < 1) | (table[:, column] > largest))
        if len(wrong):
            value = table[wrong[0], column]
            raise _damaged(
                field, path, f"rating number {wrong[0] + 1}: {what} {value} is not in 1 to {largest}"
            )
    pair = table[:, 0] * (ITEMS + 1) + table[:, 1]
    order = np.argsort(pair)
    if (np.diff(pair[order]) == 0).any():
        raise _damaged(field, path, "a user rates an item twice")
    return table[order]


def _rows(
    path: Path,
    text: str,
    delimiter: str,
    width: int,
    count: int,
    field: str,
    read: Callable[[list[str]], Row],
) -> list[Row]:
    """Reads the lines of users or items, which are numbered from 1 in order."""
    # Not splitlines(), which also splits at characters that latin-1 text may hold.
    lines = text.removesuffix("\n").split("\n")
    if len(lines) != count:
        raise _damaged(field, path, f"{len(lines)} lines, not {count}")
    rows = []
    for number, line in enumerate(lines, start=1):
        cells = line.split(delimiter)
        try:
            if len(cells) != width:
                raise ValueError(f"{len(cells)} fields, not {width}")
            if cells[0] != str(number):
                raise ValueError(f"id {cells[0]!r}, not {number}")
            rows.append(read(cells))
        except ValueError as error:
            raise _damaged(field, path, f"entry {number}: {error}") from error
    return rows


def _user(cells: list[str]) -> tuple[int, int, int, bytes]:
    _, age, gender, occupation, zip_code = cells
    if len(zip_code) != 5 or not zip_code.isascii():
        raise ValueError(f"zip code {zip_code!r} has not 5 characters")
    if not (age.isdecimal() and age.isascii() and len(age) <= 3):
        raise ValueError(f"age {age!r} is no number of years")
    for what, value, known in (("gender", gender, ("F", "M")), ("occupation", occupation, OCCUPATIONS)):
        if value not in known:
            raise ValueError(f"unknown {what} {value!r}")
    return int(age), ("F", "M").index(gender), OCCUPATIONS.index(occupation), zip_code.encode()


def _atomic_item(cells: list[str]) -> tuple[int, list[bool]]:
    _, title, year, genres = cells
    words = genres.split(" ")
    if set(words) - set(GENRES):
        raise ValueError(f"unknown genre in {genres!r}")
    return int(year) if year.isdecimal() else _year_in(title), [genre in words for genre in GENRES]


def _year_in(title: str) -> int:
    """The last year in round brackets; 0 for the one film that has none, "unknown"."""
    years = re.findall(r"\((\d{4})\)", title)
    return int(years[-1]) if years else 0


def _content(path: Path, field: str, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            field, str(path), f"{path.name} cannot be read: {error.strerror}.", remedy, kind="missing_data"
        ) from error


def _damaged(field: str, path: Path, what: str) -> ConfigError:
    return ConfigError(
        field,
        str(path),
        f"{path.name} is damaged, truncated or changed: {what}.",
        "Unpack GroupLens's ml-100k archive again, or leave data.location out.",
    )
