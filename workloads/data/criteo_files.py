"""Criteo's click logs as files.

One line a sample, tab-separated: the label, 13 whole numbers, 26 values of eight hexadecimal digits; any of
the 39 may be empty. The Kaggle challenge's ``train.txt`` holds seven days, the 1 TB logs are ``day_0`` to
``day_23``, as they are or in gzip (``.gz``). The binary copy (``text_copy``) takes 157 bytes a sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from workloads.data.delimited import BadLine, Fields, decimals, hexadecimals
from workloads.data.text_copy import Expected, TextCopy, TextFormat, open_copy

DENSE, CATEGORIES = 13, 26
_WIDTH = 1 + DENSE + CATEGORIES
_REMEDY = "Fetch it again; for a part of the data set set lines to any."


def open_file(
    folder: Path, name: str, samples: int | None, sha256: Mapping[str, str] | None = None
) -> TextCopy:
    """One of Criteo's files, as arrays ``labels`` and ``rows``.

    ``labels`` is uint8 [n]; ``rows`` is uint32 [n, 39], 13 numbers (as int32) and 26 category values, 0 where
    one is missing.

    Args:
        folder: of the user's.
        name: of the file, without ``.gz``.
        samples: how many lines the file must have; None: any number but 0.
        sha256: of files, by their names, where the user knows it.

    Raises:
        ConfigError: see ``open_copy``.
    """
    return open_copy(folder, name, _FORMAT, Expected(samples, _REMEDY, sha256 or {}))


def _parsed(fields: Fields) -> Mapping[str, np.ndarray]:
    label = fields.columns(0, 1)
    empty = np.flatnonzero(label.ends[:, 0] == label.starts[:, 0])
    if len(empty):
        raise BadLine(fields.first_line + int(empty[0]), "the label is missing")
    labels = decimals(label, "label", 0, 1)
    numbers = decimals(fields.columns(1, 1 + DENSE), "number", -(2**31), 2**31 - 1)
    rows = np.empty((len(labels), DENSE + CATEGORIES), np.dtype("<u4"))
    rows[:, :DENSE] = numbers.astype(np.int32).view(np.uint32)
    rows[:, DENSE:] = hexadecimals(fields.columns(1 + DENSE, _WIDTH), "category")
    return {"labels": labels[:, 0].astype(np.uint8), "rows": rows}


_FORMAT = TextFormat(
    width=_WIDTH,
    delimiter="\t",
    arrays={"labels": ("u1", 1), "rows": ("<u4", DENSE + CATEGORIES)},
    parse=_parsed,
    shortest=_WIDTH + 1,  # a label, 39 tabs and a newline
)
