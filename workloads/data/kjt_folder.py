"""A folder of dumped batches as a data source: your own job's KeyedJaggedTensors, trained on again.

``kjt_files`` says what a file looks like and has the function that writes one. The files' samples follow one
another in the order of the files' names, whatever batch sizes they were dumped in; a run cuts its own global
batches out of them, and starts over at the end. The last ``evaluation_samples`` are held out.

Every file is read and checked once before anything is launched, and again where it is used. The run's seed
does not change the order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from suite.data import DataSource, Samples
from suite.errors import ConfigError
from suite.samples_cut import joined, split
from suite.spec import Frozen, WorkloadSpec, validated
from workloads.data.kjt_files import FIELD, batch_files, batch_size, read_batch

#: Files that a rank keeps in memory.
KEPT_FILES = 4


class KjtOptions(Frozen):
    """``data.options`` of KjtFolder."""

    #: The last samples of the folder are held out.
    evaluation_samples: Annotated[int, Field(ge=0)] = 0


class KjtFolder(DataSource):
    """See the module's docstring; the folder is ``data.location``, or ``--data`` of the command line."""

    @classmethod
    def check(cls, workload: WorkloadSpec) -> None:
        """Refuses wrong options, and a folder with a file that is not right. Reads all of it."""
        folder = cls(workload, seed=0)
        for number in range(len(folder._files)):
            folder._read(number)

    def __init__(self, workload: WorkloadSpec, seed: int) -> None:  # noqa: ARG002 - the order is the folder's
        options = validated(KjtOptions, workload.data.options, "data.options.")
        if workload.data.location is None:
            raise ConfigError(
                FIELD,
                None,
                "no folder of dumped batches is named.",
                "Set data.location, or give --data FOLDER.",
            )
        self._workload = workload
        self._files = batch_files(Path(workload.data.location))
        self._read = lru_cache(KEPT_FILES)(lambda number: read_batch(self._files[number], workload))
        sizes = [batch_size(path) for path in self._files]
        #: Where each file's samples start, and where the last one's end.
        self._starts = np.array([0, *accumulate(sizes)])
        samples = int(self._starts[-1])
        if options.evaluation_samples >= samples:
            raise ConfigError(
                "data.options.evaluation_samples",
                options.evaluation_samples,
                f"the folder has {samples} samples, and none would be left to train on.",
                "Hold fewer out, or dump more batches.",
            )
        self._train_size = samples - options.evaluation_samples
        self._evaluation_size = options.evaluation_samples

    def train(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of the folder's, again and again from the first to those held out."""
        parts = []
        while start < stop:
            first = start % self._train_size
            last = min(first + stop - start, self._train_size)
            parts.append(self._cut(first, last))
            start += last - first
        return joined(parts) if parts else self._cut(0, 0)

    @property
    def evaluation_size(self) -> int:
        """The option ``evaluation_samples``."""
        return self._evaluation_size

    def evaluation(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of those held out."""
        return self._cut(self._train_size + start, self._train_size + stop)

    def describe(self) -> dict[str, Any]:
        """``fingerprint`` is that of all samples, however they are cut into files."""
        labels = self.evaluation(0, self.evaluation_size).labels
        return {
            "source": f"{len(self._files)} dumped batches",
            "fingerprint": self._fingerprint(),
            "split": f"the folder's last {self.evaluation_size} samples",
            "train_samples": self._train_size,
            "evaluation_samples": self.evaluation_size,
            "base_rate": float(labels.mean(dtype=np.float64)) if len(labels) else None,
        }

    def _cut(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of the folder."""
        pieces = list(self._pieces(start, stop))
        return joined(pieces) if pieces else split(self._read(0), 0)[0]

    def _pieces(self, start: int, stop: int) -> Iterator[Samples]:
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        for number in range(first, len(self._files)):
            begins = int(self._starts[number])
            if begins >= stop:
                return
            whole = self._read(number)
            yield split(split(whole, stop - begins)[0], max(0, start - begins))[1]

    def _fingerprint(self) -> str:
        """A hash for each array, fed with the samples of all files, then one over the hashes."""
        hashes: dict[str, Any] = {}
        for number in range(len(self._files)):
            batch = self._read(number)
            arrays = {"dense": batch.dense, "labels": batch.labels}
            for feature, (ids, lengths) in batch.sparse.items():
                arrays |= {f"ids {feature}": ids, f"lengths {feature}": lengths}
            for name, array in arrays.items():
                hashes.setdefault(name, hashlib.sha256()).update(np.ascontiguousarray(array).tobytes())
        whole = hashlib.sha256()
        for name, part in sorted(hashes.items()):
            whole.update(name.encode() + part.digest())
        return whole.hexdigest()
