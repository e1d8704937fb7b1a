"""Records on disk: one folder a run, ``runs/<workload>/<spec hash>/<UTC time>-<short id>/``.

While a run goes on its folder has a temporary name, ``.<run id>.partial``, beside the final one, and
holds a valid ``record.json`` of the launches finished so far: each is saved before the next begins. At
the end the folder is renamed. Whoever kills the run in between leaves a record with status ``partial``.
The process that runs it holds a lock on the folder, which the kernel takes away from a process that ends: a
folder of a temporary name without a lock was left behind, and ``reopen`` goes on with it.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from suite.environment import utc_now
from suite.errors import ConfigError, ErrorReport, RunFailed
from suite.files import sync_folder, write_whole
from suite.record import SCHEMA_VERSION, EnvironmentRecord, LaunchRecord, RunRecord
from suite.spec import RunSpec

RECORD = "record.json"

_UNFINISHED = ErrorReport(
    kind="interrupted",
    message="The run has not finished: it still goes on, or it was ended.",
    remedy="Its finished launches are kept; if it was ended, the same command with --resume runs the others.",
)


class RunFolder:
    """The folder of a run that is going on. ``path`` is its temporary name.

    Args:
        path: the folder.
        record: what its ``record.json`` holds.
        lock: of ``_lock``; held until the run ends or this process does.
    """

    def __init__(self, path: Path, record: RunRecord, lock: int | None) -> None:
        self.path = path
        self._record = record
        self._locked = lock

    @property
    def launches(self) -> tuple[LaunchRecord, ...]:
        """The launches that have been saved."""
        return self._record.launches

    def save_launch(self, launch: LaunchRecord) -> None:
        """Adds one launch to the record on disk.

        Raises:
            RunFailed: the disk is full or cannot be written. What was saved before is untouched.
        """
        self._record = self._record.model_copy(update={"launches": (*self._record.launches, launch)})
        with _saving(self.path):
            _write(self.path / RECORD, self._record)

    def finish(
        self, status: Literal["complete", "partial", "failed"], error: ErrorReport | None
    ) -> tuple[RunRecord, Path]:
        """Writes the final record and gives the folder its final name.

        Returns:
            The record as it is on disk, and the folder.

        Raises:
            RunFailed: the disk is full or cannot be written; the launches stay in the temporary folder.
        """
        self._record = self._record.model_copy(update={"status": status, "error": error})
        final = self.path.with_name(self._record.run_id)
        with _saving(self.path):
            _write(self.path / RECORD, self._record)
            self.path.rename(final)
            sync_folder(final.parent)
        self.release()
        return self._record, final

    def release(self) -> None:
        """Gives up the lock: another process may go on with the run."""
        if self._locked is not None:
            os.close(self._locked)
            self._locked = None


def open_run(runs_dir: Path, run: RunSpec, environment: EnvironmentRecord) -> RunFolder:
    """Makes the temporary folder of a new run, with a record of no launches yet.

    Raises:
        ConfigError: ``runs`` cannot be written; nothing is left behind.
    """
    workload = run.workload
    parent = runs_dir / workload.name / workload.spec_hash
    try:
        parent.mkdir(parents=True, exist_ok=True)
        path = _new_folder(parent)
        lock = _lock(path)
        record = RunRecord(
            run_id=path.name.removeprefix(".").removesuffix(".partial"),
            created=utc_now(),
            status="partial",
            spec_hash=workload.spec_hash,
            run=run,
            environment=environment,
            launches=(),
            error=_UNFINISHED,
        )
        try:
            _write(path / RECORD, record)
        except OSError:
            path.rmdir()
            raise
    except OSError as error:
        raise ConfigError(
            "runs",
            str(runs_dir),
            f"records cannot be written there: {error.strerror}.",
            "Name another folder with --runs, or make this one writable.",
            kind="environment",
        ) from error
    return RunFolder(path, record, lock)


def runs_of(run: RunSpec, runs_dir: Path) -> Iterator[tuple[Path, RunRecord]]:
    """Folders and records of exactly this run, the oldest first; what is no record is passed over."""
    parent = runs_dir / run.workload.name / run.workload.spec_hash
    folders = sorted(parent.glob(f"*/{RECORD}"), key=lambda file: file.parent.name.removeprefix("."))
    for file in folders:
        try:
            record = read(file)
        except ConfigError:
            continue
        if record.run == run:
            yield file.parent, record


def is_going_on(path: Path) -> bool:
    """Whether a process is running the run of this folder, as far as the file system can tell."""
    try:
        lock = _lock(path)
    except (BlockingIOError, FileNotFoundError):  # held, or renamed just now
        return True
    if lock is not None:
        os.close(lock)
    return False


def reopen(path: Path, flags: tuple[str, ...]) -> RunFolder | None:
    """Goes on with a run that was ended before it had finished. Its finished launches stay.

    Args:
        path: of the folder, under its temporary or its final name.
        flags: of the environment now; the record's environment gets them too.

    Returns:
        None where another process is running it, or the file system has no locks to tell.

    Raises:
        ConfigError: the folder cannot be written.
    """
    try:
        lock = _lock(path)
    except (BlockingIOError, FileNotFoundError):
        return None
    if lock is None:
        return None
    record = read(path / RECORD)
    finished = tuple(launch for launch in record.launches if launch.status == "complete")
    environment = record.environment
    record = record.model_copy(
        update={
            "status": "partial",
            "error": _UNFINISHED,
            "launches": finished,
            "environment": environment.model_copy(
                update={"flags": tuple(dict.fromkeys((*environment.flags, *flags)))}
            ),
        }
    )
    temporary = path.with_name(f".{record.run_id}.partial")
    try:
        if path != temporary:
            path.rename(temporary)
        _write(temporary / RECORD, record)
        for index in range(len(finished), record.run.launches):  # what the launch that was ended left
            for left in (temporary / f"launch{index}", temporary / "logs" / f"launch{index}"):
                shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        os.close(lock)
        raise ConfigError(
            "runs",
            str(path),
            f"the run cannot be gone on with: {error.strerror}.",
            "Make the folder writable, or leave out --resume.",
            kind="environment",
        ) from error
    return RunFolder(temporary, record, lock)


def find(run: str, runs_dir: Path) -> Path:
    """The folder of a run, named by its folder, its record.json, or a beginning of its id that fits no other.

    Raises:
        ConfigError: no such run, or an id that fits several.
    """
    given = Path(run)
    try:
        if given.name == RECORD and given.is_file():
            return given.parent
        if (given / RECORD).is_file():
            return given
        # A path is never an id: ids hold no separator.
        matches = [] if os.sep in run or run in ("", ".", "..") else list(_matching(run, runs_dir))
    except OSError as error:  # no permission on a folder above it, or a name too long to be one
        raise ConfigError(
            "run",
            run,
            f"it cannot be looked for: {error.strerror}.",
            "Check the path and its permissions, and those of --runs.",
        ) from error
    if not matches:
        raise ConfigError(
            "run",
            run,
            f"no such run: neither a folder with a {RECORD} nor an id in {runs_dir}.",
            "Give the path that `sparse2d run` printed, or say with --runs where the runs are.",
        )
    if len(matches) > 1:
        raise ConfigError(
            "run",
            run,
            f"{len(matches)} runs fit this id: {', '.join(str(path) for path in matches[:5])}.",
            "Give more of the id, or the path.",
        )
    return matches[0]


def load(run: str, runs_dir: Path) -> RunRecord:
    """The validated record of a run (named as for ``find``).

    Raises:
        ConfigError: no such run; or a record that is truncated, foreign, invalid, or of a newer schema.
    """
    return read(find(run, runs_dir) / RECORD)


def read(path: Path) -> RunRecord:
    """The validated record in one file.

    Raises:
        ConfigError: ``record``, naming the file and what is wrong with it.
    """

    def refused(message: str, remedy: str) -> ConfigError:
        return ConfigError("record", str(path), message, remedy, kind="bad_record")

    again = "Delete the folder and run it again."
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise refused(
            f"it cannot be read: {error.strerror}.", "Check the path and its permissions."
        ) from error
    except RecursionError as error:
        raise refused("it is no run record: it is nested too deep.", again) from error
    except ValueError as error:
        raise refused(f"it is not whole JSON, probably truncated: {error}.", again) from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise refused("it is no run record: it has no schema_version.", "Name the record.json of a run.")
    if version > SCHEMA_VERSION:
        raise refused(
            f"its schema version {version} is newer than {SCHEMA_VERSION}, which this version reads.",
            "Read it with the version of sparse2d-bench that wrote it, or a newer one.",
        )
    try:
        record = RunRecord.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise refused(f"{field} is not valid: {first['msg']}.", again) from error
    if record.spec_hash != record.run.workload.spec_hash:
        raise refused(
            f"its spec_hash {record.spec_hash} is not that of its workload, {record.run.workload.spec_hash}: "
            "it was changed after it was written.",
            again,
        )
    return record


def _matching(run: str, runs_dir: Path) -> Iterator[Path]:
    """Run folders whose id, or the random part of it, begins with ``run``; unfinished ones included."""
    for record in sorted(runs_dir.glob(f"*/*/*/{RECORD}")):
        run_id = record.parent.name.removeprefix(".").removesuffix(".partial")
        if run_id.startswith(run) or run_id.rpartition("-")[2].startswith(run):
            yield record.parent


def _new_folder(parent: Path) -> Path:
    """A new temporary folder whose final name is free, too."""
    while True:
        run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        path = parent / f".{run_id}.partial"
        if not (parent / run_id).exists():
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path


def _lock(path: Path) -> int | None:
    """A lock on a run's folder that ends with this process; None where the file system has no locks.

    Raises:
        BlockingIOError: another process holds it.
        FileNotFoundError: there is no such folder.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:
        os.close(handle)
        return None
    return handle


@contextmanager
def _saving(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunFailed(
            ErrorReport(
                kind="cannot_save",
                field="runs",
                value=str(folder),
                message=f"The record could not be saved: {error.strerror}.",
                remedy="Make room, or name another folder with --runs. What was saved before is kept there.",
            )
        ) from error


def _write(path: Path, record: RunRecord) -> None:
    """The record, validated first, whole or not at all.

    Raises:
        OSError: nothing of it is left behind.
    """
    text = record.model_dump_json(indent=1, fallback=str)
    RunRecord.model_validate_json(text)
    write_whole(path, text + "\n")
