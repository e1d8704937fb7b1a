from __future__ import annotations

import csv
import hashlib
import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.catalog import load_workload
from suite.data import DataSource, open_source
from suite.errors import ConfigError
from suite.samples_check import check_samples
from suite.spec import WorkloadSpec
from workloads.data.counter_random import permuted
from workloads.data.movielens_large import FACTS, GENRES
from workloads.data.text_copy import CACHE_VARIABLE

FILMS = [
    (1, "Toy Story (1995)", "Animation|Children's|Comedy"),
    (7, 'Film, A ("x") (2001)', "Drama"),
    (40, "Nameless", "(no genres listed)"),
    (3952, "Última (1) (1999)", "Sci-Fi|Thriller"),
]
RATINGS = 200
#: user, film, half stars, time
Rating = tuple[int, int, int, int]


@pytest.fixture(autouse=True)
def here_and_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    logging.getLogger("workloads").setLevel(logging.ERROR)


def write(folder: Path, size: str) -> list[Rating]:
    """A data set's files in the format of its size."""
    draw = random.Random(0)
    ratings = [
        (
            draw.randint(1, 6040),
            draw.choice(FILMS)[0],
            2 * draw.randint(1, 5) - (size != "1m") * draw.randint(0, 1),
            draw.randint(956_703_932, 1_046_454_590),
        )
        for _ in range(RATINGS)
    ]
    if size in ("1m", "10m"):
        stars = "{:g}".format
        text = "".join(f"{u}::{f}::{stars(h / 2)}::{t}\n" for u, f, h, t in ratings)
        (folder / "ratings.dat").write_text(text)
        films = "".join(f"{i}::{title}::{genres}\n" for i, title, genres in FILMS)
        (folder / "movies.dat").write_text(films, encoding="latin-1" if size == "1m" else "utf-8")
        return ratings
    text = "".join(f"{u},{f},{h / 2},{t}\n" for u, f, h, t in ratings)
    (folder / "ratings.csv").write_text(f"userId,movieId,rating,timestamp\n{text}")
    with (folder / "movies.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [(i, title, genres.replace("Children's", "Children")) for i, title, genres in FILMS]
        csv.writer(file).writerows([("movieId", "title", "genres"), *rows])
    return ratings


def spec(folder: Path, size: str, **options: Any) -> WorkloadSpec:
    workload = load_workload(f"movielens_100k,size={size}", str(folder))
    given = {"size": size, "lines": "any", **options}
    return workload.model_copy(update={"data": workload.data.model_copy(update={"options": given})})


def opened(folder: Path, size: str, seed: int = 0, **options: Any) -> DataSource:
    return open_source(spec(folder, size, **options), seed)


def seen(source: DataSource, size: str) -> list[tuple[Any, ...]]:
    """Every training and evaluation sample: ids, label, year, genres."""
    found = []
    for samples in (source.train(0, 160), source.evaluation(0, 40)):
        sparse = samples.sparse
        cuts = np.cumsum(sparse["genres"][1])[:-1]
        genres = [tuple(bag.tolist()) for bag in np.split(sparse["genres"][0], cuts)]
        columns = (sparse["user_id"][0], sparse["item_id"][0], samples.labels, sparse["release_year"][0])
        found += [
            (*row, bag)
            for row, bag in zip(zip(*(c.tolist() for c in columns), strict=True), genres, strict=True)
        ]
    return found


@pytest.mark.parametrize("size", FACTS)
def test_samples_are_what_the_files_say(tmp_path: Path, size: str) -> None:
    ratings = write(tmp_path, size)
    place = {film: number for number, (film, _, _) in enumerate(FILMS)}
    years = {1: 1995 - 1899, 7: 2001 - 1899, 40: 0, 3952: 1999 - 1899}
    named = {i: g.replace("Children's", "Children").split("|") for i, _, g in FILMS if not g.startswith("(")}
    genres = {i: tuple(n for n, genre in enumerate(GENRES) if genre in named.get(i, ())) for i, _, _ in FILMS}
    expected = [(u - 1, place[f], float(h >= 8), years[f], genres[f]) for u, f, h, _ in ratings]
    source = opened(tmp_path, size)
    assert sorted(seen(source, size)) == sorted(expected)
    check_samples(source.train(0, 160), spec(tmp_path, size), 160)
    dense = source.train(0, 160).dense
    assert dense[:, 1].min() >= -1
    assert dense[:, 1].max() <= 1


def test_the_seed_decides_the_order_and_not_the_split(tmp_path: Path) -> None:
    write(tmp_path, "25m")
    one, other = opened(tmp_path, "25m"), opened(tmp_path, "25m", seed=1)
    first, second = (source.train(0, 160).sparse["user_id"][0].tolist() for source in (one, other))
    assert first != second
    assert sorted(first) == sorted(second)
    assert first != one.train(160, 320).sparse["user_id"][0].tolist()
    assert (one.evaluation(0, 40).dense == other.evaluation(0, 40).dense).all()
    again = one.train(150, 170).sparse["user_id"][0].tolist()
    assert again == first[150:] + one.train(160, 170).sparse["user_id"][0].tolist()
    assert opened(tmp_path, "25m", evaluation_samples=7).evaluation_size == 7
    split = opened(tmp_path, "25m", split_seed=1).evaluation(0, 40)
    assert (split.dense != one.evaluation(0, 40).dense).any()


def test_the_threshold_may_be_a_half(tmp_path: Path) -> None:
    ratings = write(tmp_path, "10m")
    samples = opened(tmp_path, "10m", threshold=3.5)
    clicks = samples.train(0, 160).labels.sum() + samples.evaluation(0, 40).labels.sum()
    assert clicks == sum(h >= 7 for _, _, h, _ in ratings)


def test_line_ends_of_windows_do_not_matter(tmp_path: Path) -> None:
    write(tmp_path, "20m")
    before = seen(opened(tmp_path, "20m"), "20m")
    other = tmp_path / "windows"
    other.mkdir()
    for name in ("ratings.csv", "movies.csv"):
        text = (tmp_path / name).read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        (other / name).write_bytes(text)
    assert seen(opened(other, "20m"), "20m") == before


@pytest.mark.parametrize(
    ("size", "name", "old", "new", "words"),
    [
        ("25m", "ratings.csv", "userId", "user", "line 1: it is not 'userId,movieId,rating,timestamp'"),
        ("25m", "ratings.csv", "\n", "\n1,2\n", "line 2: 2 fields, not 4"),
        ("25m", "ratings.csv", "\n", "\n1,1,5.5,1000000000\n", "line 2: rating '5.5'"),
        ("25m", "ratings.csv", "\n", "\n1,1,0.0,1000000000\n", "line 2: rating '0.0'"),
        ("25m", "ratings.csv", "\n", "\n1,1,4.25,1000000000\n", "line 2: rating '4.25'"),
        ("25m", "ratings.csv", "\n", "\nx,1,4.0,1000000000\n", "line 2: user 'x'"),
        (
            "25m",
            "ratings.csv",
            "\n",
            "\n1,2,4.0,1000000000\n",
            "rating number 1 has film 2, which there is not",
        ),
        ("25m", "ratings.csv", "\n", "\n1,9999,4.0,1000000000\n", "rating number 1 has film 9999"),
        ("25m", "ratings.csv", "\n", "\n162542,1,4.0,1000000000\n", "rating number 1 has user 162542"),
        ("1m", "ratings.dat", "::", ":x:", "line 1: its fields are not separated by '::'"),
        ("1m", "ratings.dat", "::", ":", "line 1: 6 fields, not 7"),
        ("25m", "movies.csv", "Drama", "Dram", "line 3: unknown genre 'Dram'"),
        ("1m", "movies.dat", "7::", "x::", "line 2: it is not an id"),
        ("1m", "movies.dat", "7::", f"{'7' * 5_000}::", "line 2: it is not an id"),
        ("1m", "movies.dat", "7::", "1::", "one twice"),
        ("25m", "movies.csv", "movieId", "film", "line 1: it is not 'movieId,title,genres'"),
        # A quote without an end: of its line, though a reader of the whole would go on to the end.
        ("25m", "movies.csv", "1,Toy", '1,"Toy', "line 2: it is not an id, a title and genres"),
        ("25m", "movies.csv", "1,Toy", f'1,"{"x" * 2**17}', "line 2: field larger than field limit"),
        ("25m", "movies.csv", "1,Toy", "1,Toy\r", "line 2: new-line character seen in unquoted field"),
        ("25m", "movies.csv", "1,Toy", '1,"Toy\n', "line 2: it is not an id, a title and genres"),
        ("25m", "movies.csv", "40,", "x,", "line 4: it is not an id, a title and genres"),
    ],
)
def test_damaged_files_are_refused_by_name_and_line(
    tmp_path: Path, size: str, name: str, old: str, new: str, words: str
) -> None:
    write(tmp_path, size)
    encoding = "latin-1" if name == "movies.dat" else "utf-8"
    text = (tmp_path / name).read_text(encoding=encoding)
    (tmp_path / name).write_text(text.replace(old, new, 1), encoding=encoding)
    message = refused(spec(tmp_path, size))
    assert ("ratings" if "rating number" in words else name) in message
    assert words in message


@pytest.mark.parametrize(("size", "name"), [("1m", "movies.dat"), ("25m", "movies.csv")])
def test_a_last_film_that_was_cut_is_refused(tmp_path: Path, size: str, name: str) -> None:
    write(tmp_path, size)
    content = (tmp_path / name).read_bytes()
    number = content.count(b"\n")
    # The second lacks its newline only, and nothing else would tell.
    for cut in (content[:-4], content.removesuffix(b"\n").removesuffix(b"\r")):
        (tmp_path / name).write_bytes(cut)
        message = refused(spec(tmp_path, size))
        assert f"{name}: line {number}: it is cut short" in message


def test_a_film_file_of_nothing_is_refused(tmp_path: Path) -> None:
    for size, name, words in (
        ("1m", "movies.dat", "it has no films"),
        ("25m", "movies.csv", "line 1: it is not 'movieId"),
    ):
        write(tmp_path, size)
        (tmp_path / name).write_bytes(b"")
        assert words in refused(spec(tmp_path, size))


def refused(workload: WorkloadSpec) -> str:
    with pytest.raises(ConfigError) as caught:
        open_source(workload, 0)
    assert caught.value.report.remedy
    return caught.value.report.message


@pytest.mark.parametrize(
    ("size", "name"),
    [("1m", "movies.dat"), ("1m", "ratings.dat"), ("25m", "movies.csv"), ("25m", "ratings.csv")],
)
def test_a_checksum_that_is_known_is_held_against_the_file(tmp_path: Path, size: str, name: str) -> None:
    write(tmp_path, size)
    right = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    opened(tmp_path, size, sha256={name: right})
    wrong = "0" * 64
    message = refused(spec(tmp_path, size, sha256={name: wrong}))
    assert message == f"{name}: its SHA-256 is {right}, and data.options.sha256 says {wrong}."
    assert "no file of this name is read" in refused(spec(tmp_path, size, sha256={"tags.csv": wrong}))


def test_short_and_missing_files_are_refused(tmp_path: Path) -> None:
    assert "no folder with MovieLens 1M" in refused(load_workload("movielens_100k,size=1m"))
    assert "movies.dat cannot be read" in refused(spec(tmp_path, "1m"))
    write(tmp_path, "1m")
    assert "it has 4 films, not 3,883" in refused(spec(tmp_path, "1m", lines="published"))
    films = "".join(f"{i}::F (1990)::Drama\n" for i in range(1, 3_884))
    (tmp_path / "movies.dat").write_text(films)
    assert "cannot hold 1,000,209 lines" in refused(spec(tmp_path, "1m", lines="published"))
    with pytest.raises(ConfigError, match="there is no MovieLens of this size"):
        load_workload("movielens_100k,size=5m")


@pytest.mark.parametrize("size", [1, 2, 3, 100, 4097])
def test_permutations_that_are_not_stored(size: int) -> None:
    found = permuted(3, np.arange(size), size)
    assert sorted(found.tolist()) == list(range(size))
    assert permuted(3, np.arange(size)[-2:], size).tolist() == found[-2:].tolist()
    if size > 50:
        assert found.tolist() != permuted(4, np.arange(size), size).tolist()
        # Neither near where it was nor near its neighbour: a correlation of 0 has a spread of 1 / sqrt(size).
        assert abs(np.corrcoef(found, np.arange(size))[0, 1]) < 5 / size**0.5
        assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 5 / size**0.5
