"""Criteo's click logs as files: the text they come as, and a binary copy of each that batches are cut from.

One line a sample, tab-separated: the label, 13 whole numbers, 26 values of eight hexadecimal digits; any of
the 39 may be empty. The Kaggle challenge's ``train.txt`` holds seven days, the 1 TB logs are ``day_0`` to
``day_23``, as they are or in gzip (``.gz``).

A text file is read once, a few megabytes at a time, into two files of a cache: ``<name>.labels`` (a byte a
sample) and ``<name>.rows`` (13 int32 and 26 uint32 a sample, little-endian). Beside them ``<name>.json``
says what they were made from: size, time of change and SHA-256 of the source and of both. A file whose size
and time are as they were is taken for the same; else its SHA-256 decides, and a changed one is refused by
name. The cache holds what the file says and no setting of a workload, so that no setting can be stale in it.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, cast

import numpy as np
from pydantic import ValidationError

from suite.errors import ConfigError
from suite.files import write_whole
from suite.spec import Frozen
from workloads.data.delimited import BadLine, Fields, decimals, hexadecimals, read_fields

DENSE, CATEGORIES = 13, 26
WIDTH = 1 + DENSE + CATEGORIES
#: Where the cache goes if not beside the data, which may lie on a disk that is only read.
CACHE_VARIABLE = "SPARSE2D_CACHE"
CACHE_FOLDER = "sparse2d_cache"
#: A label, 39 tabs and a newline: the shortest line there is.
SHORTEST_LINE = WIDTH + 1
FIELD = "data.location"
_CHUNK = 2**20
_log = logging.getLogger(__name__)


class Stamp(Frozen):
    """What a file was when it was last looked at."""

    size: int
    modified_ns: int
    sha256: str


class Manifest(Frozen):
    """What a pair of binary files was made from. ``format`` changes with the layout of the files."""

    format: Literal[1] = 1
    source: str
    samples: int
    clicks: int
    text: Stamp
    labels: Stamp
    rows: Stamp


@dataclass(frozen=True)
class CriteoFile:
    """One text file's samples, on disk.

    Attributes:
        path: of the text.
        labels, rows: of the cache.
        manifest: what they are.
    """

    path: Path
    labels: Path
    rows: Path
    manifest: Manifest

    def __len__(self) -> int:
        return self.manifest.samples

    @cached_property
    def label_array(self) -> np.ndarray:
        """uint8 [samples], mapped from disk."""
        return np.memmap(self.labels, np.uint8, "r", shape=(len(self),))

    @cached_property
    def row_array(self) -> np.ndarray:
        """uint32 [samples, 39], mapped from disk: 13 numbers (int32) and 26 category values."""
        return np.memmap(self.rows, np.dtype("<u4"), "r", shape=(len(self), DENSE + CATEGORIES))


def open_file(folder: Path, name: str, samples: int | None) -> CriteoFile:
    """One text file by its binary copy, which is made when it is not there yet.

    Args:
        folder: of the user's.
        name: of the file, without ``.gz``.
        samples: how many lines the file must have; None: any number but 0.

    Raises:
        ConfigError: ``data.location``: no such file; one that is damaged or has another number of lines; one
            that has changed since its copy was made, or a copy that has; a disk that is full.
    """
    path = _source(folder, name)
    cache = _cache_folder(folder)
    manifest_path = cache / f"{name}.json"
    labels, rows = cache / f"{name}.labels", cache / f"{name}.rows"
    if manifest_path.exists():
        manifest = _read_manifest(manifest_path)
        again = f"Bring the file back as it was, or delete {manifest_path} to have the copy made again."
        if manifest.source != path.name:
            _refuse(path, f"the copy in {cache} was made from {manifest.source}.", again)
        stamps = {
            "text": _unchanged(path, manifest.text, "has changed since its copy was made", again),
            "labels": _unchanged(labels, manifest.labels, "is not as it was written", again),
            "rows": _unchanged(rows, manifest.rows, "is not as it was written", again),
        }
        if stamps != {name: getattr(manifest, name) for name in stamps}:
            manifest = manifest.model_copy(update=stamps)
            with suppress(OSError):  # on a disk that is only read it is looked at anew each time
                write_whole(manifest_path, manifest.model_dump_json(indent=1) + "\n")
    else:
        if samples is not None and path.suffix != ".gz" and path.stat().st_size < samples * SHORTEST_LINE:
            _refuse(
                path,
                f"{path.stat().st_size:,} bytes cannot hold {samples:,} lines: it is cut short.",
                _another_length(),
            )
        with writable(cache):
            cache.mkdir(exist_ok=True, parents=True)
            manifest = _convert(path, labels, rows, samples)
            write_whole(manifest_path, manifest.model_dump_json(indent=1) + "\n")
    if samples is not None and manifest.samples != samples:
        _refuse(
            path, f"it ends after line {manifest.samples:,}, and Criteo's has {samples:,}.", _another_length()
        )
    return CriteoFile(path, labels, rows, manifest)


def _another_length() -> str:
    return "Fetch it again; for a part of the data set data.options.complete = false."


def _source(folder: Path, name: str) -> Path:
    try:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    except OSError as error:
        _refuse(folder, f"it cannot be looked at: {error.strerror}.", "Name the folder of Criteo's files.")
    raise ConfigError(
        FIELD,
        str(folder),
        f"there is no file {name} or {name}.gz in it.",
        "Name the folder that holds Criteo's files.",
        kind="missing_data",
    )


def _cache_folder(folder: Path) -> Path:
    elsewhere = os.environ.get(CACHE_VARIABLE)
    if not elsewhere:
        return folder / CACHE_FOLDER
    # One folder of the cache for each folder of data: their files have the same names.
    return Path(elsewhere) / hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def _read_manifest(path: Path) -> Manifest:
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.errors()[0]["msg"]
        _refuse(path, f"it does not read: {reason}.", "Delete it to have the copy made again.")


def _unchanged(path: Path, stamp: Stamp, what: str, remedy: str) -> Stamp:
    """The file's stamp now; only its time may differ."""
    try:
        status = path.stat()
        if status.st_size == stamp.size and status.st_mtime_ns == stamp.modified_ns:
            return stamp
        if status.st_size != stamp.size:
            _refuse(path, f"it {what}: {status.st_size:,} bytes, not {stamp.size:,}.", remedy)
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        _refuse(path, f"it cannot be read: {error.strerror}.", remedy)
    if found != stamp.sha256:
        _refuse(path, f"it {what}: its SHA-256 is {found}, not {stamp.sha256}.", remedy)
    return stamp.model_copy(update={"modified_ns": status.st_mtime_ns})


def _convert(path: Path, labels: Path, rows: Path, expected: int | None) -> Manifest:
    _log.warning("Reading %s once, into %s", path, labels.parent)
    began, told, samples, clicks = time.monotonic(), time.monotonic(), 0, 0
    before = path.stat()
    with _HashedWriter(labels) as label_file, _HashedWriter(rows) as row_file, path.open("rb") as raw:
        source = _HashedReader(raw)
        for fields in _blocks(path, source):
            label, row = _parsed(path, fields)
            label_file.write(label)
            row_file.write(row)
            samples += len(label)
            clicks += int(label.sum(dtype=np.int64))
            if time.monotonic() - told > 30:
                told = time.monotonic()
                _log.warning(
                    "%s: %s lines, %.0f a second", path.name, f"{samples:,}", samples / (told - began)
                )
        source.read_to_end()
        if samples == 0:
            _refuse(path, "it is empty.", "Fetch it again.")
        if expected is not None and samples != expected:
            _refuse(
                path, f"it ends after line {samples:,}, and Criteo's has {expected:,}.", _another_length()
            )
    return Manifest(
        source=path.name,
        samples=samples,
        clicks=clicks,
        text=Stamp(size=before.st_size, modified_ns=before.st_mtime_ns, sha256=source.digest.hexdigest()),
        labels=label_file.stamp(),
        rows=row_file.stamp(),
    )


def _blocks(path: Path, source: _HashedReader) -> Iterator[Fields]:
    stream: Any = gzip.GzipFile(fileobj=cast("IO[bytes]", source)) if path.suffix == ".gz" else source
    try:
        yield from read_fields(stream, WIDTH, "\t")
    except BadLine as error:
        _refuse(path, f"{error}.", "Fetch it again.")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        _refuse(path, f"it is cut short or damaged: {error}.", "Fetch it again.")


def _parsed(path: Path, fields: Fields) -> tuple[np.ndarray, np.ndarray]:
    """Labels uint8 [n] and rows uint32 [n, 39]."""
    try:
        label = fields.columns(0, 1)
        empty = np.flatnonzero(label.ends[:, 0] == label.starts[:, 0])
        if len(empty):
            raise BadLine(fields.first_line + int(empty[0]), "the label is missing")
        labels = decimals(label, "label", 0, 1)
        numbers = decimals(fields.columns(1, 1 + DENSE), "number", -(2**31), 2**31 - 1)
        categories = hexadecimals(fields.columns(1 + DENSE, WIDTH), "category")
    except BadLine as error:
        _refuse(path, f"{error}.", "Fetch it again.")
    rows = np.empty((len(labels), DENSE + CATEGORIES), np.dtype("<u4"))
    rows[:, :DENSE] = numbers.astype(np.int32).view(np.uint32)
    rows[:, DENSE:] = categories
    return labels[:, 0].astype(np.uint8), rows


class _HashedReader:
    """What gzip and ``read_fields`` need of a file, hashed as it goes by."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self.digest.update(block)
        return block

    def read_to_end(self) -> None:
        """Hashes what a reader has left."""
        while self.read(_CHUNK):
            pass


class _HashedWriter:
    """A file that gets its name when the block ends well."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._digest = hashlib.sha256()
        self._size = 0

    def __enter__(self) -> _HashedWriter:
        self._file = self._part.open("wb")
        return self

    def write(self, array: np.ndarray) -> None:
        """Appends an array's bytes."""
        data = np.ascontiguousarray(array).data
        self._file.write(data)
        self._digest.update(data)
        self._size += data.nbytes

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()
        if kind is None:
            self._part.replace(self._path)
        else:
            self._part.unlink(missing_ok=True)

    def stamp(self) -> Stamp:
        """Of the finished file."""
        return Stamp(
            size=self._size, modified_ns=self._path.stat().st_mtime_ns, sha256=self._digest.hexdigest()
        )


@contextmanager
def writable(cache: Path) -> Iterator[None]:
    """Says how to go on where the cache cannot be written.

    Raises:
        ConfigError: in the place of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(
            FIELD,
            str(cache),
            f"the binary copy of the data cannot be written there: {error.strerror}.",
            f"Make room or make it writable, or name another folder by the environment's {CACHE_VARIABLE}.",
            kind="environment",
        ) from error


def _refuse(path: Path, message: str, remedy: str) -> NoReturn:
    raise ConfigError(FIELD, str(path), f"{path.name}: {message}", remedy, kind="bad_data")
