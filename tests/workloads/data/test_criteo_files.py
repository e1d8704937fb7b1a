from __future__ import annotations

import errno
import gzip
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.errors import ConfigError
from tests.helpers.criteo import read_criteo, write_criteo
from workloads.data import text_copy
from workloads.data.criteo_files import open_file
from workloads.data.text_copy import CACHE_VARIABLE

LINES = 300


@pytest.fixture(autouse=True)
def no_cache_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_criteo(tmp_path / "train.txt", LINES)
    return tmp_path


def refused(folder: Path, samples: int | None = None) -> str:
    """The whole text of the error."""
    with pytest.raises(ConfigError) as caught:
        open_file(folder, "train.txt", samples)
    report = caught.value.report
    assert report.field == "data.location"
    assert report.remedy
    assert not list(folder.glob("sparse2d_cache/.*")), "something half-written is left"
    return f"{report.value} {report.message} {report.remedy}"


def replace_line(path: Path, number: int, old: str, new: str, count: int = 1) -> None:
    lines = path.read_text().split("\n")
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new, count)
    path.write_text("\n".join(lines))


def test_the_copy_holds_what_a_plain_reader_finds(folder: Path) -> None:
    expected = read_criteo(folder / "train.txt")
    found = open_file(folder, "train.txt", LINES)
    assert len(found) == LINES
    assert found.arrays["labels"].tolist() == [line.label for line in expected]
    assert found.arrays["rows"][:, :13].view(np.int32).tolist() == [line.numbers for line in expected]
    assert found.arrays["rows"][:, 13:].tolist() == [line.categories for line in expected]


def test_gzip_gives_the_same(folder: Path) -> None:
    plain = np.array(open_file(folder, "train.txt", None).arrays["rows"])
    shutil.rmtree(folder / "sparse2d_cache")
    text = folder / "train.txt"
    (folder / "train.txt.gz").write_bytes(gzip.compress(text.read_bytes()))
    text.unlink()
    assert (open_file(folder, "train.txt", LINES).arrays["rows"] == plain).all()


def test_the_text_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_file(folder, "train.txt", LINES)
    monkeypatch.setattr(text_copy, "_convert", None)
    assert len(open_file(folder, "train.txt", LINES)) == LINES


def test_what_a_killed_process_left_goes_with_the_next(folder: Path) -> None:
    half = folder / "sparse2d_cache" / ".train.txt.rows.part"
    half.parent.mkdir()
    half.write_bytes(bytes(10**6))
    rows = open_file(folder, "train.txt", LINES).arrays["rows"]
    assert rows[:, 13:].tolist() == [line.categories for line in read_criteo(folder / "train.txt")]
    assert not half.exists()


def test_a_second_process_waits_for_the_copy_of_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    converting, waiting = threading.Event(), threading.Event()
    convert, made = text_copy._convert, []

    def slow(path: Path, *arguments: Any) -> Any:
        converting.set()
        assert waiting.wait(30)
        made.append(path)
        return convert(path, *arguments)

    monkeypatch.setattr(text_copy, "_convert", slow)
    monkeypatch.setattr(text_copy._log, "warning", lambda *_: waiting.set())
    with ThreadPoolExecutor(2) as processes:
        first = processes.submit(open_file, folder, "train.txt", LINES)
        assert converting.wait(30)
        second = processes.submit(open_file, folder, "train.txt", LINES)
        assert np.array_equal(first.result(30).arrays["rows"], second.result(30).arrays["rows"])
    assert len(made) == 1


def test_the_cache_may_lie_elsewhere(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    other = tmp_path / "other"
    other.mkdir()
    write_criteo(other / "train.txt", 20, seed=1)
    assert len(open_file(folder, "train.txt", None)) == LINES
    assert len(open_file(other, "train.txt", None)) == 20
    assert not (folder / "sparse2d_cache").exists()


@pytest.mark.parametrize(
    ("line", "old", "new", "words"),
    [
        (7, "\t", "", "line 7: 39 fields, not 40"),
        (1, "\t", "\t\t", "line 1: 41 fields, not 40"),
        (300, "\t", "", "line 300: 39 fields, not 40"),
    ],
)
def test_a_line_of_another_width_is_refused_by_file_and_line(
    folder: Path, line: int, old: str, new: str, words: str
) -> None:
    replace_line(folder / "train.txt", line, old, new)
    text = refused(folder)
    assert "train.txt" in text
    assert words in text


@pytest.mark.parametrize(
    ("column", "new", "words"),
    [
        (0, "2", "label '2'"),
        (0, "", "label is missing"),
        (5, "1.5", "number '1.5'"),
        (5, "2147483648", "number '2147483648'"),
        (14, "0123456g", "category '0123456g' is not eight hexadecimal digits"),
        (39, "0123456", "category '0123456'"),
        (39, "01234567\r", "category '01234567"),
    ],
)
def test_a_field_that_does_not_read_is_refused_by_file_and_line(
    folder: Path, column: int, new: str, words: str
) -> None:
    lines = (folder / "train.txt").read_text().split("\n")
    fields = lines[41].split("\t")
    fields[column] = new
    lines[41] = "\t".join(fields)
    (folder / "train.txt").write_text("\n".join(lines), newline="")
    text = refused(folder)
    assert "train.txt: line 42: " in text
    assert words in text


def test_a_truncated_line_is_refused(folder: Path) -> None:
    path = folder / "train.txt"
    content = path.read_bytes()
    path.write_bytes(content[:-1])  # all fields are there, perhaps: only the newline tells
    assert "line 300: it is cut short" in refused(folder)
    path.write_bytes(content[: content.rindex(b"\n", 0, -1) + 20])
    assert "line 300: it is cut short" in refused(folder)


def test_a_short_file_is_refused(folder: Path) -> None:
    assert "it ends after line 300, and the whole has 301" in refused(folder, LINES + 1)
    assert "cannot hold 45,840,617 lines" in refused(folder, 45_840_617)
    open_file(folder, "train.txt", None)
    assert "it ends after line 300, and the whole has 301" in refused(folder, LINES + 1)  # by its copy, too


def test_a_damaged_gzip_is_refused(folder: Path) -> None:
    packed = gzip.compress((folder / "train.txt").read_bytes())
    (folder / "train.txt").unlink()
    for content in (packed[:-100], packed[:-8] + b"12345678", b"not gzip"):
        (folder / "train.txt.gz").write_bytes(content)
        assert "train.txt.gz: it is cut short or damaged" in refused(folder)


def test_an_empty_or_missing_file_is_refused(folder: Path) -> None:
    (folder / "train.txt").write_text("")
    assert "it is empty" in refused(folder)
    (folder / "train.txt").unlink()
    assert "there is no file train.txt" in refused(folder)


def test_a_changed_source_behind_the_copy_is_refused_by_name(folder: Path) -> None:
    path = folder / "train.txt"
    open_file(folder, "train.txt", None)
    before = path.read_bytes()
    flipped = (b"1" if before[:1] == b"0" else b"0") + before[1:]
    path.write_bytes(flipped)  # as long as before
    os.utime(path, ns=(1, 1))
    text = refused(folder)
    assert "train.txt: it has changed since its copy was made: its SHA-256" in text
    assert "delete" in text
    path.write_bytes(before + b"\n")
    assert "train.txt: it has changed since its copy was made: " in refused(folder)
    path.write_bytes(before)
    assert len(open_file(folder, "train.txt", None)) == LINES


def test_a_file_that_was_only_touched_is_looked_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_file(folder, "train.txt", None)
    os.utime(folder / "train.txt", ns=(1, 1))
    open_file(folder, "train.txt", None)
    monkeypatch.setattr(text_copy.hashlib, "file_digest", None)
    assert len(open_file(folder, "train.txt", None)) == LINES


@pytest.mark.parametrize("name", ["train.txt.rows", "train.txt.labels"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_a_damaged_copy_is_refused_by_name(folder: Path, name: str, damage: str) -> None:
    open_file(folder, "train.txt", None)
    path = folder / "sparse2d_cache" / name
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-1] if damage == "cut" else bytes([content[0] ^ 1]) + content[1:])
        os.utime(path, ns=(1, 1))
    assert name in refused(folder)


def test_a_damaged_manifest_is_refused_by_name(folder: Path) -> None:
    open_file(folder, "train.txt", None)
    (folder / "sparse2d_cache" / "train.txt.json").write_text("{}")
    assert "train.txt.json: it does not read" in refused(folder)


def test_a_disk_that_cannot_be_written_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "/proc/none")
    assert CACHE_VARIABLE in refused(folder)


def test_a_full_disk_is_said(folder: Path) -> None:
    cache = folder / "sparse2d_cache"
    cache.mkdir()
    (cache / ".train.txt.rows.part").symlink_to("/dev/full")
    assert "cannot be written there: No space left on device" in refused(folder)


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz"])
def test_an_error_while_the_source_is_read_names_the_source(folder: Path, name: str) -> None:
    (folder / "train.txt").unlink()
    (folder / name).symlink_to("/proc/self/mem")  # whose first page nobody can read
    text = refused(folder)
    assert text.startswith(str(folder / name))
    assert f"{name}: it cannot be read: Input/output error" in text
    assert CACHE_VARIABLE not in text


@pytest.mark.parametrize("samples", [None, LINES])
def test_a_source_that_may_not_be_opened_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, samples: int | None
) -> None:
    whole = Path.open

    def forbidden(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "train.txt":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return whole(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", forbidden)  # root may open anything
    assert "train.txt: it cannot be read: Permission denied. Make it readable" in refused(folder, samples)
