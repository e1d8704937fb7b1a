"""A user's own generator of samples as a data source.

``data.source`` may name a function ``(workload, seed) -> Iterator[Samples]`` that yields blocks of any
size but 0. The stream is the blocks one after the other, and every rank reads all of it and keeps its own
slices: simple to write, at the price that every rank pays for generating everything. A source whose
samples can be reached by index derives from ``suite.data.DataSource`` instead.

The first ``data.options.evaluation_samples`` samples (default 0) are held out for evaluation, and
training starts after them. All other options are the function's own.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from suite.data import DataSource, Samples
from suite.errors import ConfigError
from suite.loading import user_code
from suite.samples_check import check_samples
from suite.samples_cut import joined, split
from suite.spec import WorkloadSpec

#: Held-out samples are kept in memory, by the parent and by every rank.
MOST_EVALUATION_SAMPLES = 10**8

#: The one option under ``data.options`` that is the suite's.
HELD_OUT = "evaluation_samples"

_END: Any = object()
Generate = Callable[[WorkloadSpec, int], Iterable[Samples]]


def stream_source(function: Generate) -> type[DataSource]:
    """The DataSource that serves what ``function`` yields."""
    return type("StreamSource", (_StreamSource,), {"generate": staticmethod(function)})


class _StreamSource(DataSource):
    """Serves a stream in order: a slice may lie ahead of the last one, never behind it."""

    generate: ClassVar[Generate]

    @classmethod
    def check(cls, workload: WorkloadSpec) -> None:
        """Refuses a wrong option, and a function whose first block or held-out samples are not valid."""
        options = workload.data.options
        near = [] if HELD_OUT in options else difflib.get_close_matches(HELD_OUT, options, n=1, cutoff=0.8)
        for name in near:  # else it would be taken for one of the function's own, and there would be no AUC
            raise ConfigError(
                f"data.options.{name}",
                options[name],
                "there is no such option.",
                f"Did you mean {HELD_OUT}? An option of the function's own needs a name less like it.",
            )
        cls(workload, seed=0)

    def __init__(self, workload: WorkloadSpec, seed: int) -> None:
        self._workload = workload
        self._stream = self._blocks(workload, seed)
        self._read = 0  # samples read from the stream so far
        self._block = self._next_block()
        self._position = 0  # index in the stream of the block's first sample
        self._held_out = self._take(0, _evaluation_samples(workload))

    def train(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) after the held-out ones.

        Raises:
            ConfigError: of kind ``bad_data``: the stream ends before, or yields something wrong.
            ValueError: the slice lies behind one that was served already.
        """
        return self._take(self.evaluation_size + start, self.evaluation_size + stop)

    @property
    def evaluation_size(self) -> int:
        """The option ``evaluation_samples``."""
        return _evaluation_samples(self._workload)

    def evaluation(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of those held out."""
        return split(split(self._held_out, stop)[0], start)[1]

    def describe(self) -> dict[str, Any]:
        """``fingerprint`` is that of the first block that seed 0 yields."""
        return {
            "source": self._workload.data.source,
            "fingerprint": _digest(next(self._blocks(self._workload, seed=0))),
            "split": f"first {self.evaluation_size} samples of the stream",
            "train_samples": None,
            "evaluation_samples": self.evaluation_size,
            "base_rate": (
                float(self._held_out.labels.mean(dtype=np.float64)) if self.evaluation_size else None
            ),
        }

    @classmethod
    def _blocks(cls, workload: WorkloadSpec, seed: int) -> Iterator[Samples]:
        """The function's blocks, checked; what it raises becomes a ConfigError."""
        reference = workload.data.source
        remedy = "It is called as function(workload, seed) and must yield suite.data.Samples."
        stream: Iterator[Samples] | None = None
        while True:
            # Not around the yield: what runs between two blocks is not the user's code.
            with user_code("data.source", reference, remedy, kind="bad_data"):
                if stream is None:
                    stream = iter(cls.generate(workload, seed))
                block = next(stream, _END)
                if block is _END:
                    return
                check_samples(block, workload, len(block.labels) if isinstance(block, Samples) else 0)
            if not len(block.labels):  # nothing but such blocks would be read for ever
                raise ConfigError(
                    "data.source",
                    reference,
                    "it yielded a block of no samples.",
                    "Yield blocks of one sample or more, and end the stream by returning.",
                    kind="bad_data",
                )
            yield block

    def _take(self, start: int, stop: int) -> Samples:
        if start < self._position:
            raise ValueError(f"a stream only goes forward: {start} was asked for after {self._position}.")
        for _ in self._pieces(start - self._position):
            pass
        none, _ = split(self._block, 0)
        return joined([none, *self._pieces(stop - start)])

    def _pieces(self, count: int) -> Iterator[Samples]:
        """The next ``count`` samples, in pieces of what the function yielded."""
        while count:
            piece, self._block = split(self._block, count)
            self._position += len(piece.labels)
            count -= len(piece.labels)
            yield piece
            if count:
                self._block = self._next_block()

    def _next_block(self) -> Samples:
        for block in self._stream:
            self._read += len(block.labels)
            return block
        raise ConfigError(
            "data.source",
            self._workload.data.source,
            f"its stream ends after {self._read} samples, and the run needs more.",
            "Yield more (the function may start over), or run fewer steps.",
            kind="bad_data",
        )


def _evaluation_samples(workload: WorkloadSpec) -> int:
    value = workload.data.options.get(HELD_OUT, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(
            f"data.options.{HELD_OUT}", value, "this is not a number of samples.", "Use 0 or more."
        )
    if value > MOST_EVALUATION_SAMPLES:
        raise ConfigError(
            f"data.options.{HELD_OUT}",
            value,
            "held-out samples are kept in memory, and these are too many.",
            f"Use {MOST_EVALUATION_SAMPLES} or fewer.",
        )
    return value


def _digest(samples: Samples) -> str:
    digest = hashlib.sha256(samples.dense.tobytes() + samples.labels.tobytes())
    for feature, (ids, lengths) in sorted(samples.sparse.items()):
        digest.update(feature.encode() + ids.tobytes() + lengths.tobytes())
    return digest.hexdigest()
