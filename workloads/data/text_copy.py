"""A binary copy of a large text file, made once, which knows what it was made from.

A text file is read a few megabytes at a time, checked line by line, and kept as arrays on disk that are
mapped and not loaded: ``<cache>/<name>.<array>``. Beside them ``<name>.json`` says what they were made from:
size, time of change and SHA-256 of the source and of every array. A file whose size and time are as they
were is taken for the same; else its SHA-256 decides, and a changed one is refused by name. A copy holds what
the file says and no setting of a workload, so that no setting can be stale in it.

The cache lies beside the data in ``sparse2d_cache``, or where the environment's ``SPARSE2D_CACHE`` says.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import logging
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NoReturn, cast

import numpy as np
from pydantic import StringConstraints, ValidationError

from suite.errors import ConfigError
from suite.files import write_whole
from suite.spec import Frozen
from workloads.data.delimited import BadLine, Fields, read_fields

#: Where the cache goes if not beside the data, which may lie on a disk that is only read.
CACHE_VARIABLE = "SPARSE2D_CACHE"
CACHE_FOLDER = "sparse2d_cache"
FIELD = "data.location"
#: ``data.options.sha256``: what the user knows of files, by their names.
Sha256Option = dict[str, Annotated[str, StringConstraints(pattern="^[0-9a-fA-F]{64}$", to_lower=True)]]
_AGAIN = "Fetch it again."
_CHUNK = 2**20
_TELL_S = 30
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TextFormat:
    """How a file's lines become arrays.

    Attributes:
        width: fields a line.
        delimiter: one ASCII character.
        arrays: name to dtype and columns of what is kept; 1 column gives one dimension.
        parse: the arrays of some lines, by name; it raises BadLine.
        header: the first line, where it names the columns.
        shortest: bytes of the shortest line there can be, newline included.
    """

    width: int
    delimiter: str
    arrays: Mapping[str, tuple[str, int]]
    parse: Callable[[Fields], Mapping[str, np.ndarray]]
    shortest: int
    header: str | None = None


@dataclass(frozen=True)
class Expected:
    """What is known of a file beforehand."""

    #: None: any number but 0.
    lines: int | None
    #: Where it has another number.
    remedy: str = _AGAIN
    #: By the name of the file as it lies in the folder; others are taken as they are.
    sha256: Mapping[str, str] = field(default_factory=dict)


class Stamp(Frozen):
    """What a file was when it was last looked at."""

    size: int
    modified_ns: int
    sha256: str


class Manifest(Frozen):
    """What a copy was made from. ``format`` changes with the layout of the files."""

    format: Literal[1] = 1
    source: str
    lines: int
    text: Stamp
    arrays: dict[str, Stamp]


@dataclass(frozen=True)
class TextCopy:
    """One text file's content, on disk."""

    path: Path
    cache: Path
    manifest: Manifest
    arrays: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return self.manifest.lines


def open_copy(folder: Path, name: str, form: TextFormat, expected: Expected) -> TextCopy:
    """One text file by its binary copy, which is made when it is not there yet.

    Args:
        folder: of the user's.
        name: of the file, without ``.gz``.
        form: of its lines.
        expected: how many there are.

    Raises:
        ConfigError: ``data.location``: no such file; one that cannot be read, is damaged or has another
            number of lines; one that has changed since its copy was made, or a copy that has; a full disk.
    """
    path = _source(folder, name)
    cache = _cache_folder(folder)
    manifest_path = cache / f"{name}.json"
    files = {array: cache / f"{name}.{array}" for array in form.arrays}
    if not manifest_path.exists():
        _refuse_too_small(path, form, expected)
        with writable(cache):
            cache.mkdir(exist_ok=True, parents=True)
            with alone(cache / f"{name}.lock", path):
                if not manifest_path.exists():  # one that was waited for may have made it
                    made = _convert(path, files, form, expected)
                    write_whole(manifest_path, made.model_dump_json(indent=1) + "\n")
    manifest = _checked(path, files, manifest_path)
    _refuse_another_length(path, manifest.lines, expected)
    refuse_other_content(path, manifest.text.sha256, expected.sha256)
    mapped = {
        array: np.memmap(
            files[array], dtype, "r", shape=(manifest.lines,) if columns == 1 else (manifest.lines, columns)
        )
        for array, (dtype, columns) in form.arrays.items()
    }
    return TextCopy(path, cache, manifest, mapped)


def _source(folder: Path, name: str) -> Path:
    try:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    except OSError as error:
        refuse(folder, f"it cannot be looked at: {error.strerror}.", "Name the folder of the data.")
    raise ConfigError(
        FIELD,
        str(folder),
        f"there is no file {name} or {name}.gz in it.",
        "Name the folder that holds the files as they are published.",
        kind="missing_data",
    )


def _cache_folder(folder: Path) -> Path:
    elsewhere = os.environ.get(CACHE_VARIABLE)
    if not elsewhere:
        return folder / CACHE_FOLDER
    # One folder of the cache for each folder of data: their files have the same names.
    return Path(elsewhere) / hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def _checked(path: Path, files: Mapping[str, Path], manifest_path: Path) -> Manifest:
    """The manifest of a copy that is still of this file."""
    manifest = _read_manifest(manifest_path)
    again = f"Bring the file back as it was, or delete {manifest_path} to have the copy made again."
    if manifest.source != path.name or manifest.arrays.keys() != files.keys():
        refuse(path, f"the copy in {manifest_path.parent} was made from {manifest.source}.", again)
    now = manifest.model_copy(
        update={
            "text": _unchanged(path, manifest.text, "has changed since its copy was made", again),
            "arrays": {
                name: _unchanged(file, manifest.arrays[name], "is not as it was written", again)
                for name, file in files.items()
            },
        }
    )
    if now != manifest:
        # On a disk that is only read it is looked at anew each time.
        with suppress(OSError), alone(manifest_path.with_suffix(".lock"), path):
            write_whole(manifest_path, now.model_dump_json(indent=1) + "\n")
    return now


def _read_manifest(path: Path) -> Manifest:
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.errors()[0]["msg"]
        refuse(path, f"it does not read: {reason}.", "Delete it to have the copy made again.")


def _unchanged(path: Path, stamp: Stamp, what: str, remedy: str) -> Stamp:
    """The file's stamp now; only its time may differ."""
    try:
        status = path.stat()
        if status.st_size == stamp.size and status.st_mtime_ns == stamp.modified_ns:
            return stamp
        if status.st_size != stamp.size:
            refuse(path, f"it {what}: {status.st_size:,} bytes, not {stamp.size:,}.", remedy)
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        refuse(path, f"it cannot be read: {error.strerror}.", remedy)
    if found != stamp.sha256:
        refuse(path, f"it {what}: its SHA-256 is {found}, not {stamp.sha256}.", remedy)
    return stamp.model_copy(update={"modified_ns": status.st_mtime_ns})


def _refuse_too_small(path: Path, form: TextFormat, expected: Expected) -> None:
    """Before hours of reading: a file that cannot hold its lines."""
    with _readable(path):
        size = path.stat().st_size
    if expected.lines is not None and path.suffix != ".gz" and size < expected.lines * form.shortest:
        refuse(
            path, f"{size:,} bytes cannot hold {expected.lines:,} lines: it is cut short.", expected.remedy
        )


def _refuse_another_length(path: Path, lines: int, expected: Expected) -> None:
    if expected.lines is not None and lines != expected.lines:
        refuse(path, f"it ends after line {lines:,}, and the whole has {expected.lines:,}.", expected.remedy)


def _convert(path: Path, files: Mapping[str, Path], form: TextFormat, expected: Expected) -> Manifest:
    _log.warning("Reading %s once, into %s", path, next(iter(files.values())).parent)
    began = told = time.monotonic()
    lines = 0
    with ExitStack() as stack:
        with _readable(path):
            before = path.stat()
            file = stack.enter_context(path.open("rb"))
        source = _HashedReader(path, file)
        writers = {name: stack.enter_context(_HashedWriter(array)) for name, array in files.items()}
        for arrays in _parsed(path, source, form):
            for name, writer in writers.items():
                writer.write(arrays[name].astype(form.arrays[name][0], copy=False))
            lines += len(next(iter(arrays.values())))
            if time.monotonic() - told > _TELL_S:
                told = time.monotonic()
                _log.warning("%s: %s lines, %.0f a second", path.name, f"{lines:,}", lines / (told - began))
        source.read_to_end()
        if lines == 0:
            refuse(path, "it is empty.", _AGAIN)
        _refuse_another_length(path, lines, expected)
        refuse_other_content(path, source.digest.hexdigest(), expected.sha256)
    return Manifest(
        source=path.name,
        lines=lines,
        text=Stamp(size=before.st_size, modified_ns=before.st_mtime_ns, sha256=source.digest.hexdigest()),
        arrays={name: writer.stamp() for name, writer in writers.items()},
    )


def _parsed(path: Path, source: _HashedReader, form: TextFormat) -> Iterator[Mapping[str, np.ndarray]]:
    stream: Any = gzip.GzipFile(fileobj=cast("IO[bytes]", source)) if path.suffix == ".gz" else source
    try:
        for fields in read_fields(stream, form.width, form.delimiter, form.header):
            yield form.parse(fields)
    except BadLine as error:
        refuse(path, f"{error}.", _AGAIN)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        refuse(path, f"it is cut short or damaged: {error}.", _AGAIN)


class _HashedReader:
    """What gzip and ``read_fields`` need of a file, hashed as it goes by."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file = path, file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        with _readable(self._path):
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
        self._part = path.with_name(f".{path.name}.part")
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
def _readable(path: Path) -> Iterator[None]:
    """Tells an error of the user's file from one of the cache, where a copy is written meanwhile.

    Raises:
        ConfigError: in the place of an OSError.
    """
    try:
        yield
    except OSError as error:
        refuse(path, f"it cannot be read: {error.strerror}.", "Make it readable, or fetch it again.")


@contextmanager
def alone(lock: Path, path: Path) -> Iterator[None]:
    """One process at a time makes something of a file: a half that is there is of one that was killed."""
    with lock.open("wb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.warning("Another process reads %s; waiting for what it makes of it", path)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


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


def refuse_unread(sha256: Mapping[str, str], folder: Path, names: Sequence[str]) -> None:
    """Refuses a checksum of a file that is not read, which would go unchecked.

    Args:
        sha256: the option.
        folder: of the user's.
        names: of the files that are read, without ``.gz``.
    """
    read = [_source(folder, name).name for name in names] if sha256 else []
    for name in sha256.keys() - set(read):
        raise ConfigError(
            "data.options.sha256", name, "no file of this name is read.", f"Name some of {', '.join(read)}."
        )


def refuse_other_content(path: Path, found: str, sha256: Mapping[str, str]) -> None:
    """Refuses a file whose SHA-256 is not that of the option."""
    if sha256.get(path.name, found) != found:
        refuse(
            path,
            f"its SHA-256 is {found}, and data.options.sha256 says {sha256[path.name]}.",
            "Fetch it again, or correct the option.",
        )


def refuse(path: Path, message: str, remedy: str) -> NoReturn:
    """Refuses a file of the user's, by its name.

    Raises:
        ConfigError: always, of kind ``bad_data``.
    """
    raise ConfigError(FIELD, str(path), f"{path.name}: {message}", remedy, kind="bad_data")
