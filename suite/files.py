"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Replaces a file in one go: temporary file beside it, fsync, rename.

    Raises:
        OSError: nothing of it is left behind; also where a device or a pipe has that name, which the rename
            would put a file in the place of.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "it is no file that can be replaced", str(path))
    temporary = path.with_name(f".{path.name}.temporary")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Makes a rename inside a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
