from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from suite.errors import ConfigError
from tests.helpers.movielens import write_grouplens
from workloads.data.movielens_files import (
    GENRES,
    OCCUPATIONS,
    MovieLensFiles,
    embedded_folder,
    read_atomic,
    read_grouplens,
)

#: Of the canonical content. Two independent copies of the data gave it, one in each layout.
FINGERPRINT = "6206abad29024c6046b092d9f45a0f24fb2f00a63bbc18911efa6ed2f55dde78"


@pytest.fixture(scope="module")
def files() -> MovieLensFiles:
    return read_atomic(embedded_folder())


@pytest.fixture
def grouplens(tmp_path: Path) -> Path:
    write_grouplens(tmp_path)
    return tmp_path


@pytest.fixture
def atomic(tmp_path: Path) -> Path:
    return Path(shutil.copytree(embedded_folder(), tmp_path / "atomic"))


def test_counts_are_those_that_grouplens_states(files: MovieLensFiles) -> None:
    assert len(files.rating) == 100_000
    assert len(np.unique(files.user)) == 943
    assert len(np.unique(files.item)) == 1_682
    assert np.bincount(files.user).min() == 20  # "each user has rated at least 20 movies"
    assert np.bincount(files.rating).tolist() == [0, 6_110, 11_370, 27_145, 34_174, 21_201]


def test_a_rating_a_user_and_some_films(files: MovieLensFiles) -> None:
    # The first line of the archive: user 196 gave film 242 a 3.
    (row,) = np.flatnonzero((files.user == 195) & (files.item == 241))
    assert (files.rating[row], files.timestamp[row]) == (3, 881_250_949)
    assert (files.age[0], files.gender[0], OCCUPATIONS[files.occupation[0]]) == (24, 1, "technician")
    assert files.zip_code[0] == b"85711"
    genres = [genre for genre, has in zip(GENRES, files.genres[0], strict=True) if has]
    assert (files.year[0], genres) == (1995, ["Animation", "Children's", "Comedy"])
    assert (files.year[266], files.year[1_411]) == (0, 1995)  # "unknown"; the one marked as video


def test_both_layouts_have_the_same_content(files: MovieLensFiles, grouplens: Path) -> None:
    assert files.fingerprint == FINGERPRINT
    assert read_grouplens(grouplens).fingerprint == FINGERPRINT


def test_order_of_ratings_line_ends_and_genre_columns_do_not_matter(grouplens: Path) -> None:
    ratings = (grouplens / "u.data").read_text().splitlines()
    (grouplens / "u.data").write_text("\r\n".join(reversed(ratings)) + "\r\n", newline="")
    order = [3, *range(3), *range(4, 19)]
    (grouplens / "u.genre").write_text("".join(f"{GENRES[old]}|{new}\n" for new, old in enumerate(order)))
    items = [
        line.split("|") for line in (grouplens / "u.item").read_text(encoding="latin-1").split("\n") if line
    ]
    text = "".join("|".join([*cells[:5], *(cells[5 + old] for old in order)]) + "\n" for cells in items)
    (grouplens / "u.item").write_text(text, encoding="latin-1")
    assert read_grouplens(grouplens).fingerprint == FINGERPRINT


def replace_in(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="latin-1")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="latin-1")

    return change


def cut(name: str, characters: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="latin-1")
        (folder / name).write_text(text[:-characters], encoding="latin-1")

    return change


@pytest.mark.parametrize(
    ("damage", "name", "text"),
    [
        (lambda folder: (folder / "u.user").unlink(), "u.user", "cannot be read"),
        (lambda folder: (folder / "u.data").write_text(""), "u.data", "it is empty"),
        (cut("u.data", 1_000), "u.data", "damaged, truncated or changed"),
        (cut("u.data", 24), "u.data", "99999 lines of 4 columns"),
        (cut("u.data", 12), "u.data", "damaged, truncated or changed"),
        (replace_in("u.data", "196\t242\t3\t", "196\t242\tx\t"), "u.data", "damaged"),
        (replace_in("u.data", "196\t242\t3\t", "196\t242\t6\t"), "u.data", "rating 6 is not in 1 to 5"),
        (replace_in("u.data", "196\t242\t3\t", "944\t242\t3\t"), "u.data", "user 944 is not in 1 to 943"),
        (replace_in("u.data", "196\t242\t3\t", "186\t302\t3\t"), "u.data", "rates an item twice"),
        (cut("u.user", 30), "u.user", "lines, not 943"),
        (replace_in("u.user", "1|24|M|", "1|24|"), "u.user", "entry 1: 4 fields, not 5"),
        (replace_in("u.user", "2|53|F|", "3|53|F|"), "u.user", "entry 2: id '3', not 2"),
        (replace_in("u.user", "|technician|", "|astronaut|"), "u.user", "unknown occupation 'astronaut'"),
        (replace_in("u.user", "1|24|M|", "1|old|M|"), "u.user", "age 'old' is no number"),
        (replace_in("u.user", "1|24|M|", f"1|{'9' * 30}|M|"), "u.user", "is no number of years"),
        (replace_in("u.user", "1|24|M|", "1|-24|M|"), "u.user", "is no number of years"),
        (replace_in("u.user", "85711", "8571\xe9"), "u.user", "zip code"),
        (replace_in("u.data", "196\t242\t3\t", f"196\t242\t{'9' * 30}\t"), "u.data", "damaged"),
        (replace_in("u.user", "85711", "8571"), "u.user", "zip code '8571'"),
        (replace_in("u.item", "|0|0|0|1|1|1|", "|0|0|2|1|1|1|"), "u.item", "a genre flag is neither 0 nor 1"),
        (replace_in("u.item", "1|Toy Story", "1|Toy|Story"), "u.item", "entry 1: 25 fields, not 24"),
        (replace_in("u.genre", "Western", "Eastern"), "u.genre", "the genres are not the 19"),
    ],
)
def test_a_damaged_folder_is_refused_by_file(
    grouplens: Path, damage: Callable[[Path], None], name: str, text: str
) -> None:
    damage(grouplens)
    with pytest.raises(ConfigError) as caught:
        read_grouplens(grouplens)
    report = caught.value.report
    assert (report.field, report.value) == ("data.location", str(grouplens / name))
    assert name in report.message
    assert text in report.message


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (replace_in("u.data", "196\t242\t3\t", "196\t242\t4\t"), "u.data"),
        (replace_in("u.data", "\t881250949\n", "\t881250948\n"), "u.data"),
        (replace_in("u.user", "1|24|M|", "1|25|M|"), "u.user"),
        (replace_in("u.item", "Toy Story (1995)", "Toy Story (1996)"), "u.item"),
        (replace_in("u.item", "|0|0|0|1|1|1|", "|0|0|0|1|1|0|"), "u.item"),
    ],
)
def test_a_value_that_reads_but_was_changed_is_refused_by_file(
    grouplens: Path, change: Callable[[Path], None], name: str
) -> None:
    change(grouplens)
    with pytest.raises(ConfigError) as caught:
        read_grouplens(grouplens)
    report = caught.value.report
    assert (report.field, report.value) == ("data.location", str(grouplens / name))
    assert "its lines read, but some" in report.message
    assert "Unpack GroupLens's ml-100k archive again" in str(report.remedy)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        read_grouplens(tmp_path / "absent")


def test_a_folder_that_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be looked at"):
        read_grouplens(tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["ml-100k.inter", "ml-100k.user", "ml-100k.item"])
def test_a_damaged_atomic_file_is_refused(atomic: Path, name: str) -> None:
    content = (atomic / name).read_bytes()
    (atomic / name).write_bytes(content[:-1])
    with pytest.raises(ConfigError, match=f"{name} is damaged, truncated, or not the file"):
        read_atomic(atomic)


def test_a_missing_atomic_file_is_refused(atomic: Path) -> None:
    (atomic / "ml-100k.item").unlink()
    with pytest.raises(ConfigError, match=r"ml-100k\.item cannot be read"):
        read_atomic(atomic)


def test_a_missing_wheel_brings_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        embedded_folder()
    assert caught.value.report.kind == "missing_data"
    assert "recbole==1.2.1" in str(caught.value.report.remedy)


def test_the_wheel_is_found_without_importing_it() -> None:
    embedded_folder()
    assert "recbole" not in sys.modules
