"""Samples cut in two, and put together again."""

from __future__ import annotations

import numpy as np

from suite.data import Samples


def split(samples: Samples, count: int) -> tuple[Samples, Samples]:
    """The first ``count`` samples (or all, where there are fewer) and the rest, without copying."""
    head, rest = {}, {}
    for feature, (ids, lengths) in samples.sparse.items():
        cut = int(lengths[:count].sum())
        head[feature] = (ids[:cut], lengths[:count])
        rest[feature] = (ids[cut:], lengths[count:])
    return (
        Samples(samples.dense[:count], samples.labels[:count], head),
        Samples(samples.dense[count:], samples.labels[count:], rest),
    )


def joined(parts: list[Samples]) -> Samples:
    """One after the other; at least one part."""
    return Samples(
        dense=np.concatenate([p.dense for p in parts]),
        labels=np.concatenate([p.labels for p in parts]),
        sparse={
            feature: (
                np.concatenate([p.sparse[feature][0] for p in parts]),
                np.concatenate([p.sparse[feature][1] for p in parts]),
            )
            for feature in parts[0].sparse
        },
    )
