"""Criteo's click logs, from a folder of your own: the Kaggle challenge's seven days, or the 1 TB logs' 24.

``criteo_files`` reads the files. A workload's tables name features ``cat_0`` to ``cat_25``, and dense
features are the 13 numbers x as log(1 + max(x, 0)), 0 where one is missing (facebookresearch/dlrm,
``dlrm_data_pytorch.py``).

Ids, for a table of R rows and a category value h, a missing one counting as 0:

- Hashed (the default): h mod R, which is DLRM's ``--max-ind-range`` with a range for each table.
- With ``frequency_threshold`` t, after the preprocessing of MLPerf's DLRM-DCNv2: 0 where h is missing, 1
  where h mod (R - 2) came in fewer than t training samples, else 2 + h mod (R - 2). The reference numbers
  the values that it keeps one after the other; here they keep their places, so that tables have the
  workload's rows. Samples of the evaluation split are not counted.

Where a table's ``pooling_factor`` p is above 1, a bag holds that id and p - 1 more, which are a fixed hash
of it: MLPerf's way to make multi-hot data out of Criteo's, with another hash.

Splits: all days but the last train. Of the last day, the half that ``evaluation_half`` names evaluates and
the other is left alone; MLPerf and DLRM evaluate on the first half. Kaggle's file has no days: it is cut
into seven parts of equal length, as DLRM does.

Training samples come in the order of the files, as they would have come in time; the run's seed shuffles
them inside windows of ``shuffle_window`` samples, anew in every epoch. Memory does not grow with the data: a
batch is cut out of files that the operating system maps.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import abstractmethod
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from suite.data import DataSource, Samples
from suite.errors import ConfigError
from suite.files import sync_folder
from suite.spec import Frozen, TableSpec, WorkloadSpec, validated
from workloads.data.counter_random import bits, key, permutation
from workloads.data.criteo_files import CATEGORIES, DENSE, open_file
from workloads.data.text_copy import FIELD, Sha256Option, TextCopy, alone, refuse_unread, writable

FEATURES = tuple(f"cat_{number}" for number in range(CATEGORIES))
KAGGLE_DAYS = 7
#: Lines of the files as Criteo published them.
KAGGLE_LINES = 45_840_617
TERABYTE_LINES = (
    *(195_841_983, 199_563_535, 196_792_019, 181_115_208, 152_115_810, 172_548_507, 204_846_845, 200_801_003),
    *(193_772_492, 198_424_372, 185_778_055, 153_588_700, 169_003_364, 194_216_520, 194_081_279, 187_154_596),
    *(177_984_934, 163_382_602, 142_061_091, 156_534_237, 193_627_464, 192_215_183, 189_747_893, 178_274_637),
)
#: Samples looked through at a time.
_CHUNK = 2**18


class CriteoOptions(Frozen):
    """``data.options`` of Criteo's data."""

    #: ``published``: every file has the lines that Criteo published. ``any``: a part of the data set will do.
    lines: Literal["published", "any"] = "published"
    #: Values in fewer training samples share a row; 0 keeps all.
    frequency_threshold: Annotated[int, Field(strict=True, ge=0, le=255)] = 0
    evaluation_half: Literal["first", "second"] = "first"
    #: Only so many of that half, the first ones.
    evaluation_samples: Annotated[int, Field(strict=True, ge=1)] | None = None
    #: 1 leaves the order of the files.
    shuffle_window: Annotated[int, Field(strict=True, ge=1, le=2**24)] = 2**20
    #: Of files, by their names, where it is known.
    sha256: Sha256Option = Field(default_factory=dict)


class TerabyteOptions(CriteoOptions):
    """``data.options`` of the 1 TB logs."""

    #: Days 0 to days - 1, of which the last evaluates.
    days: Annotated[int, Field(strict=True, ge=2, le=24)] = 24


class Part(NamedTuple):
    """Samples [start, stop) of a file."""

    file: TextCopy
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def rows(self) -> np.ndarray:
        """uint32 [samples, 39], mapped from disk."""
        return self.file.arrays["rows"][self.start : self.stop]

    def labels(self) -> np.ndarray:
        """uint8 [samples], mapped from disk."""
        return self.file.arrays["labels"][self.start : self.stop]


class Criteo(DataSource):
    """What both data sets share."""

    Options: ClassVar[type[CriteoOptions]] = CriteoOptions

    @classmethod
    def check(cls, workload: WorkloadSpec) -> None:
        """Refuses wrong options, tables that do not fit, and files that are missing, damaged or have changed.

        The first time it reads the files through, which takes minutes for Kaggle's and hours for 1 TB.
        """
        cls(workload, seed=0)

    def __init__(self, workload: WorkloadSpec, seed: int) -> None:
        self._options = validated(self.Options, workload.data.options, "data.options.")
        _refuse_misfits(workload, self._options)
        if workload.data.location is None:
            raise ConfigError(
                FIELD,
                None,
                "no folder with Criteo's files is named.",
                "Give --data FOLDER. Criteo offers the files to who accepts its terms.",
                kind="missing_data",
            )
        self._workload = workload
        self._seed = seed
        self._train, last_day = self._split(Path(workload.data.location))
        middle = last_day.start + -(-len(last_day) // 2)
        first = self._options.evaluation_half == "first"
        start, stop = (last_day.start, middle) if first else (middle, last_day.stop)
        if self._options.evaluation_samples is not None:
            stop = min(stop, start + self._options.evaluation_samples)
        self._evaluation = Part(last_day.file, start, stop)
        sizes = [len(part) for part in self._train]
        if not sum(sizes) or not len(self._evaluation):
            raise ConfigError(
                FIELD,
                workload.data.location,
                "there are too few samples to split.",
                "Give more of the data set.",
                kind="bad_data",
            )
        self._ends = np.cumsum(sizes)
        self._kept = self._kept_values() if self._options.frequency_threshold > 1 else {}

    @abstractmethod
    def _split(self, folder: Path) -> tuple[list[Part], Part]:
        """What trains, in order, and the last day."""

    @abstractmethod
    def _name(self) -> str:
        """Of the data set and its split, for the record."""

    def train(self, start: int, stop: int) -> Samples:
        """Samples [start, stop): epoch after epoch, shuffled inside windows."""
        total, window = int(self._ends[-1]), self._options.shuffle_window
        epoch, position = np.divmod(np.arange(start, stop), total)
        number, place = np.divmod(position, window)
        for e, w in np.unique(np.stack([epoch, number]), axis=1).T.tolist():
            inside = (epoch == e) & (number == w)
            order = _window_order(self._seed, e, w, min(window, total - w * window))
            position[inside] = w * window + order[place[inside]]
        rows = np.empty((len(position), DENSE + CATEGORIES), np.uint32)
        labels = np.empty(len(position), np.uint8)
        owner = np.searchsorted(self._ends, position, side="right")
        for i in np.unique(owner):
            part, chosen = self._train[i], owner == i
            inside_part = position[chosen] - (self._ends[i] - len(part))
            rows[chosen], labels[chosen] = part.rows()[inside_part], part.labels()[inside_part]
        return self._samples(rows, labels)

    @property
    def evaluation_size(self) -> int:
        """Samples of the chosen half of the last day, or ``evaluation_samples``."""
        return len(self._evaluation)

    def evaluation(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of the chosen half, in the file's order."""
        part = self._evaluation
        return self._samples(np.array(part.rows()[start:stop]), np.array(part.labels()[start:stop]))

    def describe(self) -> dict[str, Any]:
        """``fingerprint`` is that of the text files' content, and of where they are cut."""
        parts = [*self._train, self._evaluation]
        content = json.dumps([[p.file.manifest.text.sha256, p.start, p.stop] for p in parts])
        return {
            "source": self._name(),
            "fingerprint": hashlib.sha256(content.encode()).hexdigest(),
            "split": f"{self._options.evaluation_half} half of the last day",
            "train_samples": int(self._ends[-1]),
            "evaluation_samples": self.evaluation_size,
            "base_rate": float(self._evaluation.labels().mean(dtype=np.float64)),
        }

    def _samples(self, rows: np.ndarray, labels: np.ndarray) -> Samples:
        numbers = rows[:, :DENSE].view(np.int32)
        return Samples(
            dense=np.log1p(np.maximum(numbers, 0).astype(np.float32)),
            labels=labels.astype(np.float32),
            sparse={
                feature: self._bags(table, feature, rows[:, DENSE + FEATURES.index(feature)])
                for table in self._workload.tables
                for feature in table.features
            },
        )

    def _bags(self, table: TableSpec, feature: str, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._kept:
            place = _place(value, table)
            packed = self._kept[feature]
            known = (packed[place >> 3] >> (7 - (place & 7)).astype(np.uint8)) & 1 == 1
            ids = np.where(value == 0, 0, np.where(known, 2 + place, 1))
        else:
            ids = value.astype(np.int64) % table.rows
        size = int(table.pooling_factor)
        lengths = np.full(len(ids), size, np.int32)
        if size == 1:
            return ids, lengths
        more = np.arange(1, size)
        drawn = bits(key("criteo bag", feature), *np.broadcast_arrays(ids[:, None], more[None, :]))
        others = (drawn % np.uint64(table.rows)).astype(np.int64)
        return np.concatenate([ids[:, None], others], axis=1).reshape(-1), lengths

    def _kept_values(self) -> dict[str, np.ndarray]:
        """By feature, a bit for each of the R - 2 places: whether it came often enough while training."""
        settings = json.dumps(
            {
                "format": 1,
                "threshold": self._options.frequency_threshold,
                "rows": {f: table.rows for table in self._workload.tables for f in table.features},
                "counted": [[p.file.manifest.text.sha256, p.start, p.stop] for p in self._train],
            },
            sort_keys=True,
        )
        name = hashlib.sha256(settings.encode()).hexdigest()[:16]
        first = self._train[0].file
        path = first.cache / f"kept-{name}.npz"
        if not path.exists():
            with writable(first.cache), alone(first.cache / f"kept-{name}.lock", first.path):
                if not path.exists():  # one that was waited for may have made it
                    _write_counts(path, settings, self._count())
        return _read_counts(path, settings)

    def _count(self) -> dict[str, np.ndarray]:
        least = self._options.frequency_threshold
        tables = [(feature, table) for table in self._workload.tables for feature in table.features]
        # A byte is enough: what counts is whether the threshold is reached, and it is at most 255.
        counts = {feature: np.zeros(table.rows - 2, np.uint8) for feature, table in tables}
        for part in self._train:
            for start in range(0, len(part), _CHUNK):
                rows = part.rows()[start : start + _CHUNK]
                for feature, table in tables:
                    value = rows[:, DENSE + FEATURES.index(feature)]
                    seen, often = np.unique(_place(value[value != 0], table), return_counts=True)
                    counted = counts[feature]
                    counted[seen] = np.minimum(counted[seen] + often, 255)
        return {feature: np.packbits(count >= least) for feature, count in counts.items()}


class CriteoKaggle(Criteo):
    """The file ``train.txt`` of the Display Advertising Challenge."""

    def _split(self, folder: Path) -> tuple[list[Part], Part]:
        refuse_unread(self._options.sha256, folder, ["train.txt"])
        lines = KAGGLE_LINES if self._options.lines == "published" else None
        file = open_file(folder, "train.txt", lines, self._options.sha256)
        size = len(file) // KAGGLE_DAYS
        last = len(file) - size  # the first days are those that have one sample more
        return [Part(file, 0, last)], Part(file, last, len(file))

    def _name(self) -> str:
        return "Criteo Kaggle, train.txt, seven days"


class CriteoTerabyte(Criteo):
    """The files ``day_0`` to ``day_23`` of the 1 TB click logs."""

    Options: ClassVar[type[CriteoOptions]] = TerabyteOptions
    _options: TerabyteOptions

    def _split(self, folder: Path) -> tuple[list[Part], Part]:
        published, sha256 = self._options.lines == "published", self._options.sha256
        names = [f"day_{day}" for day in range(self._options.days)]
        refuse_unread(sha256, folder, names)
        files = [
            open_file(folder, name, lines if published else None, sha256)
            for name, lines in zip(names, TERABYTE_LINES, strict=False)
        ]
        *train, last = (Part(file, 0, len(file)) for file in files)
        return train, last

    def _name(self) -> str:
        return f"Criteo 1 TB, days 0 to {self._options.days - 1}"


def _place(value: np.ndarray, table: TableSpec) -> np.ndarray:
    """The place of a value that is not missing, in the R - 2 that values have, int64."""
    return value.astype(np.int64) % (table.rows - 2)


def _refuse_misfits(workload: WorkloadSpec, options: CriteoOptions) -> None:
    least = 3 if options.frequency_threshold > 1 else 1
    for table in workload.tables:
        where = f"tables.{table.name}"
        for feature in table.features:
            if feature not in FEATURES:
                raise ConfigError(
                    f"{where}.features", feature, "Criteo has no such feature.", "Use cat_0 to cat_25."
                )
        if table.rows < least:
            raise ConfigError(
                f"{where}.rows",
                table.rows,
                "with a frequency threshold two rows are for missing and rare values.",
                f"Use {least} rows or more.",
            )
        if table.pooling_factor != int(table.pooling_factor):
            raise ConfigError(
                f"{where}.pooling_factor",
                table.pooling_factor,
                "bags made of Criteo's values have one size.",
                "Use a whole number.",
            )
    if workload.model.dense_features != DENSE:
        raise ConfigError(
            "model.dense_features", workload.model.dense_features, f"Criteo has {DENSE}.", f"Use {DENSE}."
        )


def _write_counts(path: Path, settings: str, kept: dict[str, np.ndarray]) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            np.savez(file, settings=np.array(settings), **kept)  # type: ignore[arg-type]  # its stub: allow_pickle
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        part.unlink(missing_ok=True)
        raise
    part.replace(path)
    sync_folder(path.parent)


def _read_counts(path: Path, settings: str) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        if str(found.pop("settings")) != settings:
            raise ValueError("it was made from other data or settings than its name says")
    except Exception as error:  # a zip, its checksums and numpy's headers each have errors of their own
        raise ConfigError(
            FIELD,
            str(path),
            f"{path.name} does not read: {error}.",
            "Delete it to have it made again.",
            "bad_data",
        ) from error
    return found


@lru_cache(maxsize=4)
def _window_order(seed: int, epoch: int, window: int, size: int) -> np.ndarray:
    return permutation(key("criteo window", seed, epoch, window), size)
