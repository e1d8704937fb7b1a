"""A checkpoint's folder: ``DIR/step<8 digits>/``, whole or not there. Nothing here imports torch.

It holds the files of torch.distributed.checkpoint, and ``checkpoint.json``: what was trained how far, and
the size and CRC-32 of every file. It is written under a temporary name, ``.step<n>.<random>.partial``, and
renamed when everything is on the disk, so a folder of the final name is whole unless somebody damaged it
later, which sizes and checksums show. A folder of a temporary name is never read, and may be deleted.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from suite.environment import utc_now
from suite.errors import ConfigError
from suite.files import sync_folder
from suite.spec import Frozen, RunSpec, StartSpec

MANIFEST = "checkpoint.json"
SCHEMA_VERSION: Final = 1
_CHUNK = 1 << 20


class FileRecord(Frozen):
    """One file of a checkpoint."""

    bytes: int
    crc32: int


class CheckpointRecord(Frozen):
    """What a checkpoint is of: ``run`` after ``step`` steps in all, which have seen ``samples`` samples."""

    schema_version: Literal[1] = SCHEMA_VERSION
    created: str
    step: int
    samples: int
    run: RunSpec
    files: dict[str, FileRecord]


def name_of(step: int) -> str:
    """The folder's name inside the user's DIR."""
    return f"step{step:08d}"


def check_checkpoints(run: RunSpec) -> None:
    """Refuses a start that does not fit the run, a damaged one, and a target that holds something already.

    Reads every byte of the checkpoint that the run starts from.

    Raises:
        ConfigError: ``start_from`` or ``checkpoint``, or the field of the run that does not fit.
    """
    if run.checkpoint is not None:
        first = 0 if run.start is None else run.start.step
        for local in range(run.checkpoint.every, run.steps + 1, run.checkpoint.every):
            target = Path(run.checkpoint.folder) / name_of(first + local)
            if _exists(target):
                raise ConfigError(
                    "checkpoint",
                    str(target),
                    "it is there already, and nothing is overwritten.",
                    "Name another folder, or start from it with --start-from.",
                )
    if run.start is not None:
        _fits(read(Path(run.start.checkpoint)), run)


def start_from(path: Path) -> StartSpec:
    """Where a run that continues from this checkpoint begins.

    Raises:
        ConfigError: ``start_from``: no such checkpoint, or it is damaged.
    """
    record = _manifest(path)
    return StartSpec(checkpoint=str(path), step=record.step, samples=record.samples)


def read(path: Path) -> CheckpointRecord:
    """What a checkpoint is of, after a look at every file of it.

    Raises:
        ConfigError: ``start_from``, of kind ``bad_checkpoint``, naming the file and what is wrong with it.
    """
    record = _manifest(path)
    for name, expected in record.files.items():
        file = path / name
        try:
            size, crc32 = file.stat().st_size, None
            if size == expected.bytes:
                crc32 = _crc32(file)
        except OSError as error:
            raise _damaged(path, f"{name} cannot be read: {error.strerror}") from error
        if size != expected.bytes:
            raise _damaged(path, f"{name} has {size:,} bytes, not {expected.bytes:,}")
        if crc32 != expected.crc32:
            raise _damaged(path, f"{name} has another content than was written (CRC-32)")
    return record


def begin(folder: Path, step: int) -> Path:
    """Makes the temporary folder of a new checkpoint.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f".{name_of(step)}.", suffix=".partial", dir=folder))


def finish(temporary: Path, run: RunSpec, step: int, samples: int) -> Path:
    """Writes the manifest, makes all of it durable, and gives the folder its final name.

    Raises:
        OSError: the disk is full, or a checkpoint of that name is there.
    """
    files = {
        file.name: FileRecord(bytes=file.stat().st_size, crc32=_crc32(file))
        for file in sorted(temporary.iterdir())
    }
    record = CheckpointRecord(created=utc_now(), step=step, samples=samples, run=run, files=files)
    with (temporary / MANIFEST).open("w", encoding="utf-8") as file:
        file.write(record.model_dump_json(indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    final = temporary.with_name(name_of(step))
    temporary.chmod(0o755)
    temporary.rename(final)
    sync_folder(final.parent)
    return final


def _fits(record: CheckpointRecord, run: RunSpec) -> None:
    before, start = record.run, run.start
    assert start is not None
    if (start.step, start.samples) != (record.step, record.samples):
        raise ConfigError(
            "start_from",
            start.checkpoint,
            f"it is of step {record.step}, and the run says {start.step}: another was put in its place.",
            "Name the checkpoint again.",
        )
    if before.workload.spec_hash != run.workload.spec_hash:
        raise ConfigError(
            "start_from",
            start.checkpoint,
            f"it is of {before.workload.name} {before.workload.spec_hash}, and the run is of "
            f"{run.workload.name} {run.workload.spec_hash}.",
            "Start from a checkpoint of the same workload: its model, tables, data and batch.",
        )
    kept = ("the optimizer keeps another state of the tables", "the dense optimizer keeps another state")
    for field, then, now, what in (
        ("seed", before.seed, run.seed, "its data come in another order"),
        ("optimizer.name", _state(before), _state(run), kept[0]),
        ("optimizer.dense.name", before.optimizer.dense.name, run.optimizer.dense.name, kept[1]),
    ):
        if then != now:
            raise ConfigError(
                field,
                getattr(run.optimizer, "name", now) if field == "optimizer.name" else now,
                f"the checkpoint was made with {then}: {what}.",
                f"Use {then}.",
            )
    for table, shards in run.column_shards.items():
        if run.columns_matter and before.column_shards[table] != shards:
            raise ConfigError(
                f"tables.{table}.column_shards",
                shards,
                f"the checkpoint has {before.column_shards[table]} moments a row of this table, one a column "
                "shard, and the run would keep another number.",
                "Use a layout with as many column shards (the same N = T / M), or shard the table otherwise.",
            )


def _state(run: RunSpec) -> str:
    """Which optimizers keep the same state: momentum scaling does not touch what is accumulated."""
    name = run.optimizer.name
    return "rowwise_adagrad" if name == "momentum_scaled_rowwise_adagrad" else name


def _manifest(path: Path) -> CheckpointRecord:
    if not _exists(path / MANIFEST):
        near = ", ".join(_whole_ones(path)) or _whole_ones_beside(path)
        raise ConfigError(
            "start_from",
            str(path),
            f"this is no checkpoint: it has no {MANIFEST}.",
            f"There is {near}." if near else "Give the folder step... that --checkpoint wrote.",
        )
    try:
        content = json.loads((path / MANIFEST).read_bytes())
        return CheckpointRecord.model_validate(content)
    except OSError as error:
        raise _damaged(path, f"{MANIFEST} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _damaged(path, f"{MANIFEST}: {where}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"{MANIFEST} is not whole JSON") from error


def _whole_ones(path: Path) -> Iterator[str]:
    try:
        yield from sorted(str(file.parent) for file in path.glob(f"step*/{MANIFEST}"))
    except OSError:
        return


def _whole_ones_beside(path: Path) -> str:
    return ", ".join(_whole_ones(path.parent))


def _damaged(path: Path, what: str) -> ConfigError:
    return ConfigError(
        "start_from",
        str(path),
        f"the checkpoint is damaged: {what}.",
        "Start from another one; this one cannot be trusted.",
        kind="bad_checkpoint",
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # no permission on a folder above it, or a name too long to be one
        raise ConfigError(
            "checkpoint",
            str(path),
            f"it cannot be looked at: {error.strerror}.",
            "Check the path and its permissions.",
        ) from error


def _crc32(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return value
