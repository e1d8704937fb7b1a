"""Clicks whose ids come as in production traces: skewed, reused within a while, in bags of unlike sizes.

Everything else is as in ``synthetic``: a planted teacher, a known best AUC, and every sample a function of
(seed, index) alone. What is added, for each feature:

Skew
    A Zipf law with an exponent of the table's own, within ``zipf_spread`` of ``zipf_exponent``.
Reuse
    Consecutive runs of ``window`` samples share a working set of ``working_set`` ids, drawn by that law.
    An id is one of them with probability ``reuse``, else it is drawn afresh. Over all windows both kinds
    follow the law, so reuse changes when a row is looked up and not how often.
Bag sizes
    A table with ``pooling_factor`` p above 1 has bags of geometric size with mean p: P(n) = q^n (1 - q),
    q = p / (1 + p). They have a long tail, and a share of 1 / (1 + p) is empty. At p <= 1 a bag holds one
    id with probability p.

Sources. What a trace of Meta's ads models looks like is published as the share of lookups whose row is
looked up so often in one batch of 65,536 samples (facebookresearch/dlrm_datasets, README, "Reuse
pattern"; here ``PUBLISHED_REUSE``): six of ten more than 16 times, and 7 % once. FBGEMM's own generator
of embedding requests has the same two parts as this one (pytorch/FBGEMM,
fbgemm_gpu/src/tbe/eeg/indices_generator.h): a Zipf law, and with some probability an id again that came
shortly before.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from suite.spec import TableSpec
from workloads.data.counter_random import key, uniform
from workloads.data.synthetic import SyntheticClicks, SyntheticOptions, zipf_rank

#: Of all lookups of a batch of 65,536 samples, the share whose row the batch looks up at most so many
#: times, and more often than the bound before (facebookresearch/dlrm_datasets).
PUBLISHED_REUSE = {
    1: 0.069,
    2: 0.044,
    4: 0.068,
    8: 0.101,
    16: 0.122,
    32: 0.104,
    64: 0.073,
    128: 0.058,
    256: 0.052,
    512: 0.050,
    1024: 0.049,
    2048: 0.048,
    4096: 0.048,
    8192: 0.042,
    16384: 0.031,
    math.inf: 0.042,
}


class TraceLikeOptions(SyntheticOptions):
    """``data.options`` of TraceLikeClicks."""

    zipf_exponent: Annotated[float, Field(ge=0, le=3)] = 0.9
    zipf_spread: Annotated[float, Field(ge=0, le=1)] = 0.3
    #: Probability that an id is one of its window's working set.
    reuse: Annotated[float, Field(ge=0, le=1)] = 0.4
    #: Ids in a feature's working set, repeated ones included.
    working_set: Annotated[int, Field(ge=1, le=2**31)] = 1_024
    #: Samples that share a working set.
    window: Annotated[int, Field(ge=1, le=2**31)] = 4_096


class TraceLikeClicks(SyntheticClicks):
    """See the module's docstring."""

    Options: ClassVar[type[SyntheticOptions]] = TraceLikeOptions
    _options: TraceLikeOptions

    def zipf_exponent(self, table: TableSpec) -> float:
        """The exponent of a table's law: the same for every seed."""
        centre, spread = self._options.zipf_exponent, self._options.zipf_spread
        (drawn,) = uniform(key("zipf exponent", table.name), np.zeros(1, np.int64))
        return max(0.0, centre + spread * (2 * float(drawn) - 1))

    def _lengths(self, stream: int, index: np.ndarray, table: TableSpec) -> np.ndarray:
        if table.pooling_factor <= 1:
            return super()._lengths(stream, index, table)
        q = table.pooling_factor / (1 + table.pooling_factor)
        # P(floor(log(u) / log(q)) >= n) = P(u <= q^n) = q^n, for u uniform in (0, 1].
        drawn = 1.0 - uniform(key(stream, "length"), index)
        return (np.log(drawn) / math.log(q)).astype(np.int32)

    def _hotness(self, stream: int, sample: np.ndarray, position: np.ndarray, table: TableSpec) -> np.ndarray:
        options = self._options
        afresh = uniform(key(stream, "id"), sample, position)
        member = (uniform(key(stream, "member"), sample, position) * options.working_set).astype(np.int64)
        shared = uniform(key(stream, "working set"), sample // options.window, member)
        again = uniform(key(stream, "reuse"), sample, position) < options.reuse
        return zipf_rank(np.where(again, shared, afresh), table.rows, self.zipf_exponent(table))


def reuse_histogram(counts: np.ndarray) -> dict[float, float]:
    """The share of lookups by how often their row is looked up, in the bins of PUBLISHED_REUSE.

    Args:
        counts: for each row of each table how often it is looked up; zeros do not matter.
    """
    bounds = list(PUBLISHED_REUSE)
    bins = np.searchsorted(np.array(bounds), counts, side="left")
    shares = np.bincount(bins, weights=counts, minlength=len(bounds)) / counts.sum()
    return dict(zip(bounds, shares.tolist(), strict=True))
