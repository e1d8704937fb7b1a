"""Batches of a training job of your own as files: writing them there, reading and checking them here.

One file a batch, ``<name>.npz`` (numpy's zip of arrays, which holds no code and needs no torch to read):

| array | dtype | shape | |
| --- | --- | --- | --- |
| `keys` | text | [F] | the KeyedJaggedTensor's features |
| `lengths` | whole numbers | [F * B] | ids of each sample, feature after feature |
| `offsets` | whole numbers | [F * B + 1] | may be there instead of `lengths`, or with them |
| `values` | whole numbers | [sum(lengths)] | ids, in the same order, each in [0, rows of its table) |
| `dense` | floats | [B, dense_features] | |
| `labels` | any | [B] | 0 or 1 |

Weighted KeyedJaggedTensors and those of a variable batch size are refused. So are pickles
(``torch.save``): loading one can run whatever code its author put into it.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from suite.data import Samples
from suite.errors import ConfigError
from suite.spec import WorkloadSpec

FIELD = "data.location"
_NEEDED = ("keys", "values", "dense", "labels")


def dump_batch(path: str | os.PathLike[str], sparse: Any, dense: Any, labels: Any) -> None:
    """Writes one batch; call it in your own training loop.

    Args:
        path: ends in .npz; files are read in the order of their names, so ``f"{step:08}.npz"`` keeps yours.
        sparse: the batch's KeyedJaggedTensor.
        dense: tensor [B, dense features].
        labels: tensor [B] or [B, 1].

    Raises:
        ValueError: the KeyedJaggedTensor is weighted or of a variable batch size, or the path does not end in
            .npz.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"{path} does not end in .npz")
    if sparse.weights_or_none() is not None or sparse.variable_stride_per_key():
        raise ValueError("a weighted KeyedJaggedTensor, or one of a variable batch size, cannot be dumped")
    arrays = {
        "keys": np.array(sparse.keys(), dtype=np.str_),
        "values": _array(sparse.values()),
        "lengths": _array(sparse.lengths()),
        "dense": _array(dense.float()),
        "labels": _array(labels.float()).reshape(-1),
    }
    # Under its name only when it is whole: who reads the folder meanwhile sees no half of it.
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub takes an array for allow_pickle
    part.replace(path)


def _array(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().cpu().numpy())


def batch_files(folder: Path) -> list[Path]:
    """The batches of a folder, by name.

    Raises:
        ConfigError: no such folder, or no batch in it.
    """
    try:
        names = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise ConfigError(
            FIELD,
            str(folder),
            f"the folder cannot be read: {error.strerror}.",
            "Name the folder of dumped batches.",
        ) from error
    found = [path for path in names if path.suffix == ".npz"]
    pickles = [path.name for path in names if path.suffix in (".pt", ".pth", ".pkl", ".pickle")]
    if pickles and not found:
        raise ConfigError(
            FIELD,
            str(folder),
            f"{pickles[0]} is a pickle, and loading one can run any code that is in it.",
            "Load it where you trust it, and write it again with workloads.data.kjt_files.dump_batch.",
        )
    if not found:
        raise ConfigError(
            FIELD,
            str(folder),
            "there is no .npz file in it.",
            "Dump batches with workloads.data.kjt_files.dump_batch.",
        )
    return found


def batch_size(path: Path) -> int:
    """B, of which the labels alone are read.

    Raises:
        ConfigError: of kind ``bad_data``, naming the file.
    """
    labels = _arrays(path, only="labels").get("labels")
    if labels is None:
        _refuse(path, "the array labels is missing.", "Give one label a sample.")
    return len(_labels(path, labels))


def read_batch(path: Path, workload: WorkloadSpec) -> Samples:
    """One file's batch, checked, as the workload's features; other features in it are left out.

    Raises:
        ConfigError: of kind ``bad_data``, naming the file and what is wrong in it.
    """
    arrays = _arrays(path)
    if "weights" in arrays:
        _refuse(path, "it has weights, and the suite pools without.", "Dump it without weights.")
    missing = [name for name in _NEEDED if name not in arrays]
    if missing or not {"lengths", "offsets"} & arrays.keys():
        missing = missing or ["lengths"]
        _refuse(
            path, f"the array {missing[0]} is missing.", f"It must have {', '.join(_NEEDED)} and lengths."
        )
    keys = _keys(path, arrays["keys"], workload)
    labels = _labels(path, arrays["labels"])
    dense = _dense(path, arrays["dense"], len(labels), workload.model.dense_features)
    lengths = _lengths(path, arrays, len(keys), len(labels))
    values = _whole_numbers(path, "values", arrays["values"])
    if values.shape != (int(lengths.sum()),):
        _refuse(
            path,
            f"values has shape {list(values.shape)}, and lengths add up to {int(lengths.sum())}.",
            "Dump values and lengths of the same KeyedJaggedTensor.",
        )
    ends = np.cumsum(lengths.sum(axis=1))
    sparse = {}
    for table in workload.tables:
        for feature in table.features:
            position = keys.index(feature)
            ids = values[ends[position] - lengths[position].sum() : ends[position]]
            outside = np.flatnonzero((ids < 0) | (ids >= table.rows))
            if outside.size:
                sample = int(np.searchsorted(np.cumsum(lengths[position]), outside[0], side="right"))
                _refuse(
                    path,
                    f"feature {feature!r} has id {ids[outside[0]]} in sample {sample}, and its table "
                    f"{table.name!r} has {table.rows} rows.",
                    "Map the ids to [0, rows), or give the table more rows.",
                )
            sparse[feature] = (ids, lengths[position].astype(np.int32))
    return Samples(dense=dense, labels=labels, sparse=sparse)


def _arrays(path: Path, only: str | None = None) -> dict[str, np.ndarray]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise ValueError("it holds one array and no names")
        with loaded as file:
            return {name: file[name] for name in file.files if only in (None, name)}
    except OSError as error:
        _refuse(path, f"it cannot be read: {error.strerror or error}.", "Check the file.")
    except (ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        # Not a zip, cut short, a wrong checksum; or arrays of objects, which are pickles.
        _refuse(path, f"it is no .npz of plain arrays: {error}.", "Dump it again.")


def _keys(path: Path, array: np.ndarray, workload: WorkloadSpec) -> list[str]:
    if array.ndim != 1 or array.dtype.kind != "U":
        _refuse(path, f"keys is {array.dtype} of shape {list(array.shape)}.", "Give one text a feature.")
    keys: list[str] = array.tolist()
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        _refuse(path, f"keys names {twice[0]!r} more than once.", "Name every feature once.")
    absent = [feature for feature in workload.features if feature not in keys]
    if absent:
        _refuse(
            path,
            f"it has no feature {absent[0]!r}, only {keys}.",
            "Dump every feature that the workload's tables name, or leave it out of the tables.",
        )
    return keys


def _labels(path: Path, array: np.ndarray) -> np.ndarray:
    labels = array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    if labels.ndim != 1 or labels.dtype.kind not in "biuf":
        _refuse(path, f"labels is {array.dtype} of shape {list(array.shape)}.", "Give one number a sample.")
    wrong = labels[(labels != 0) & (labels != 1)]
    if wrong.size:
        _refuse(path, f"labels hold {wrong[0]}.", "Labels are 0 or 1.")
    return labels.astype(np.float32)


def _dense(path: Path, array: np.ndarray, samples: int, features: int) -> np.ndarray:
    if array.dtype.kind != "f" or array.shape != (samples, features):
        _refuse(
            path,
            f"dense is {array.dtype} of shape {list(array.shape)}; floats of {[samples, features]} fit.",
            "Set model.dense_features to what was dumped, one row a label.",
        )
    with np.errstate(over="ignore"):  # what does not fit becomes infinite
        dense = array.astype(np.float32)
    if not np.isfinite(dense).all():
        _refuse(path, "dense holds values that are not finite in float32.", "Replace them by numbers.")
    return dense


def _lengths(path: Path, arrays: dict[str, np.ndarray], features: int, samples: int) -> np.ndarray:
    """int64 [F, B], from lengths or offsets, which must agree where both are there."""
    found = []
    if "offsets" in arrays:
        offsets = _whole_numbers(path, "offsets", arrays["offsets"])
        if offsets.shape != (features * samples + 1,) or offsets[0] != 0:
            _refuse(
                path,
                f"offsets has shape {list(offsets.shape)} and starts at {offsets[:1].tolist()}; "
                f"{features} features of {samples} samples need {features * samples + 1}, from 0.",
                "Dump offsets, keys and labels of the same batch.",
            )
        found.append(np.diff(offsets))
    if "lengths" in arrays:
        found.append(_whole_numbers(path, "lengths", arrays["lengths"]))
    for lengths in found:
        if lengths.shape != (features * samples,):
            _refuse(
                path,
                f"lengths has shape {list(lengths.shape)}; {features} features of {samples} samples need "
                f"{features * samples}.",
                "Dump lengths, keys and labels of the same batch.",
            )
        if (lengths < 0).any():
            _refuse(path, f"a bag has {lengths.min()} ids.", "Lengths are 0 or more, and offsets never fall.")
    if len(found) == 2 and (found[0] != found[1]).any():
        _refuse(path, "lengths and offsets do not agree.", "Dump one of them.")
    return found[0].reshape(features, samples)


def _whole_numbers(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.dtype.kind == "u" and array.itemsize == 8):
        _refuse(
            path, f"{name} is {array.dtype} of shape {list(array.shape)}.", "Give one int32 or int64 each."
        )
    return array.astype(np.int64)


def _refuse(path: Path, message: str, remedy: str) -> NoReturn:
    raise ConfigError(FIELD, str(path), message, remedy, kind="bad_data")
