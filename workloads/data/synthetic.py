"""Clicks drawn from a planted model, for any tables: no files, no limit on samples, a known best AUC.

Ids follow a Zipf law, as real ones do: few hot rows, many rare ones, hot rows scattered over the table as
hashed ids are. Every row of every table has a hidden effect of mean 0 and variance 1, and so has every
dense feature; the log-odds of a click are ``bias + signal * z``, where z adds up the effects of what
the sample holds and is scaled to variance 1 over uniformly drawn rows. Nothing is stored: ids, effects
and labels are hashes of counters.

A table's ``pooling_factor`` p is the mean number of ids per sample: floor(p), or one more with
probability p - floor(p), so that a fractional one gives bags of unlike sizes, some of them empty below 1.

With ``drift_samples`` D the effects of rows drift: that of row r at sample i is cos(a) e1(r) + sin(a) e2(r),
with a = pi/2 * i / D and two independent effects e1 and e2, so that its variance stays 1 and D samples later
nothing is left of what it was. ``eval_at`` is the i of the evaluation split: with the number of training
samples, a model is judged on what comes next.

The run's seed decides the training stream alone. The teacher and the evaluation split follow
``teacher_seed``, so that runs with unlike seeds learn the same thing and are judged on the same samples.
"""

from __future__ import annotations

import hashlib
import math
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from suite.data import DataSource, Samples
from suite.errors import ConfigError
from suite.spec import Frozen, TableSpec, WorkloadSpec, validated
from workloads.data.counter_random import key, standard, uniform

#: Above this the id arithmetic below would not fit 64 bits.
MAX_ROWS = 2**31


class SyntheticOptions(Frozen):
    """``data.options`` of SyntheticClicks."""

    #: Frequency of the r-th hottest row is about r ** -zipf_exponent; 0 draws all rows alike.
    zipf_exponent: Annotated[float, Field(ge=0, le=3)] = 1.05
    #: Standard deviation of the log-odds. 0 leaves nothing to learn.
    signal: Annotated[float, Field(ge=0, le=20)] = 2.0
    #: Log-odds of a click where all effects cancel out.
    bias: Annotated[float, Field(ge=-20, le=20)] = -1.0
    eval_samples: Annotated[int, Field(ge=0, le=2**31)] = 16_384
    teacher_seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    #: Training samples in which the rows' effects turn into independent ones; None: they stay.
    drift_samples: Annotated[int, Field(ge=1, le=2**53)] | None = None
    #: Where in the drift the evaluation split lies.
    eval_at: Annotated[int, Field(ge=0, le=2**53)] = 0


class SyntheticClicks(DataSource):
    """See the module's docstring. A subclass may draw lengths and ids by another law."""

    Options: ClassVar[type[SyntheticOptions]] = SyntheticOptions

    @classmethod
    def check(cls, workload: WorkloadSpec) -> None:
        """Refuses wrong options, a location, and tables above MAX_ROWS rows."""
        validated(cls.Options, workload.data.options, "data.options.")
        if workload.data.location is not None:
            raise ConfigError(
                "data.location",
                workload.data.location,
                "synthetic data is generated, not read from a folder.",
                "Leave it out.",
            )
        for table in workload.tables:
            if table.rows > MAX_ROWS:
                raise ConfigError(
                    f"tables.{table.name}.rows",
                    table.rows,
                    f"synthetic data draws from at most {MAX_ROWS} rows a table.",
                    "Use fewer rows, or more tables.",
                )

    def __init__(self, workload: WorkloadSpec, seed: int) -> None:
        self.check(workload)
        self._options = validated(self.Options, workload.data.options, "data.options.")
        self._workload = workload
        self._train = key("train", seed)
        self._evaluation = key("evaluation", self._options.teacher_seed)

    def train(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of the endless training stream."""
        return self._draw(self._train, start, stop)[0]

    @property
    def evaluation_size(self) -> int:
        """The option ``eval_samples``."""
        return self._options.eval_samples

    def evaluation(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of the evaluation split; the same for every run seed."""
        return self._draw(self._evaluation, start, stop)[0]

    def describe(self) -> dict[str, Any]:
        """Also ``bayes_auc``: what the teacher's own probabilities score on the evaluation split."""
        samples, probabilities = self._draw(self._evaluation, 0, self.evaluation_size)
        return {
            "source": "synthetic, planted logistic teacher",
            # A prefix of what is generated: it changes with any change to options, tables or generator.
            "fingerprint": digest(self.evaluation(0, 256)),
            "split": f"synthetic evaluation stream, teacher_seed {self._options.teacher_seed}",
            "train_samples": None,
            "evaluation_samples": self.evaluation_size,
            "base_rate": float(samples.labels.mean(dtype=np.float64)) if self.evaluation_size else None,
            "bayes_auc": expected_auc(probabilities),
        }

    def _draw(self, stream: int, start: int, stop: int) -> tuple[Samples, np.ndarray]:
        """The samples and the teacher's click probability of each, [B]."""
        index = np.arange(start, stop)
        angle = self._angle(stream, index)
        dense, effects = self._dense(stream, index)
        sparse = {}
        for table in self._workload.tables:
            for feature in table.features:
                ids, lengths = self._ids(key(stream, feature), index, table)
                effects += self._pooled_effects(table, ids, lengths, angle)
                sparse[feature] = (ids, lengths)
        log_odds = self._options.bias + self._options.signal * effects / math.sqrt(1 + len(sparse))
        probabilities = 1.0 / (1.0 + np.exp(-log_odds))
        labels = uniform(key(stream, "label"), index) < probabilities
        return Samples(dense=dense, labels=labels.astype(np.float32), sparse=sparse), probabilities

    def _dense(self, stream: int, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Dense features [B, dense_features] of variance 1, and their effect [B]."""
        width = self._workload.model.dense_features
        column = np.arange(width)
        values = standard(key(stream, "dense"), *np.broadcast_arrays(index[:, None], column[None, :]))
        weights = standard(key("dense effect", self._options.teacher_seed), column) / math.sqrt(width)
        return values.astype(np.float32), values @ weights

    def _ids(self, stream: int, index: np.ndarray, table: TableSpec) -> tuple[np.ndarray, np.ndarray]:
        """Ids [sum(lengths)] and lengths [B] of one feature."""
        lengths = self._lengths(stream, index, table)
        first = np.cumsum(lengths) - lengths
        position = np.arange(int(lengths.sum())) - np.repeat(first, lengths)
        hotness = self._hotness(stream, np.repeat(index, lengths), position, table)
        return scattered(hotness, table.rows), lengths

    def _lengths(self, stream: int, index: np.ndarray, table: TableSpec) -> np.ndarray:
        """Bag sizes of samples ``index``, int32 [B]."""
        least = math.floor(table.pooling_factor)
        one_more = uniform(key(stream, "length"), index) < table.pooling_factor - least
        return (least + one_more).astype(np.int32)

    def _hotness(self, stream: int, sample: np.ndarray, position: np.ndarray, table: TableSpec) -> np.ndarray:
        """Hotness ranks, 0 the hottest, of the ids at (sample, position in its bag), int64."""
        drawn = uniform(key(stream, "id"), sample, position)
        return zipf_rank(drawn, table.rows, self._options.zipf_exponent)

    def _angle(self, stream: int, index: np.ndarray) -> np.ndarray | None:
        """How far the rows' effects have turned at each sample, [B] in radians; None without drift."""
        if self._options.drift_samples is None:
            return None
        at = np.full(len(index), self._options.eval_at) if stream == self._evaluation else index
        return at * (math.pi / 2 / self._options.drift_samples)

    def _pooled_effects(
        self, table: TableSpec, ids: np.ndarray, lengths: np.ndarray, angle: np.ndarray | None
    ) -> np.ndarray:
        """Effect of one feature on each sample, [B]: the sum over its ids, scaled to variance 1."""
        teacher = self._options.teacher_seed
        effects = standard(key("row effect", teacher, table.name), ids)
        bag = np.repeat(np.arange(len(lengths)), lengths)
        if angle is not None:
            others = standard(key("drifted row effect", teacher, table.name), ids)
            effects = np.cos(angle)[bag] * effects + np.sin(angle)[bag] * others
        pooled = np.bincount(bag, weights=effects, minlength=len(lengths))
        return pooled / math.sqrt(table.pooling_factor)


def zipf_rank(drawn: np.ndarray, rows: int, exponent: float) -> np.ndarray:
    """Maps uniform numbers in [0, 1) to hotness ranks 0 (hottest) .. rows - 1, int64.

    The inverse of a power law on [1, rows + 1), rounded down: rank r has probability proportional to
    the integral of x ** -exponent from r + 1 to r + 2. No table of probabilities is needed, so that
    billions of rows cost nothing.
    """
    if exponent == 1.0:
        value = (rows + 1.0) ** drawn
    else:
        power = 1.0 - exponent
        value = (1.0 + drawn * ((rows + 1.0) ** power - 1.0)) ** (1.0 / power)
    return np.clip(value.astype(np.int64) - 1, 0, rows - 1)


def scattered(rank: np.ndarray, rows: int) -> np.ndarray:
    """Spreads hot rows over the table: a one-to-one map of 0 .. rows - 1 onto itself, int64."""
    stride = max(1, int(rows * 0.6180339887))
    while math.gcd(stride, rows) != 1:
        stride += 1
    return (rank * stride + rows // 3) % rows


def expected_auc(probabilities: np.ndarray) -> float | None:
    """AUC of scoring samples by their true click probabilities, averaged over the draws of the labels.

    No model can do better in expectation. None where a class has no weight.
    """
    rising = np.sort(probabilities)
    clicks, others = rising, 1.0 - rising
    pairs = clicks.sum() * others.sum()
    if pairs == 0:
        return None
    below = np.cumsum(others) - others
    # A sample can not be paired with itself: as click and as non-click it would tie.
    return float((clicks * below).sum() / (pairs - (clicks * others).sum()))


def digest(samples: Samples) -> str:
    """SHA-256 of the arrays of some samples, in hex."""
    found = hashlib.sha256(samples.dense.tobytes() + samples.labels.tobytes())
    for feature, (ids, lengths) in sorted(samples.sparse.items()):
        found.update(feature.encode() + ids.tobytes() + lengths.tobytes())
    return found.hexdigest()
