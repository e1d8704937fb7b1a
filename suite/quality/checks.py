"""What is refused before the first training: models and data that do not fit, and judging by heart."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from suite.data import DataSource, Samples, described, open_source, source_class
from suite.errors import ConfigError
from suite.quality.spec import Training
from suite.samples_check import check_samples

#: Evaluation samples looked for, at most: so many blocks spread over the split, of so many samples.
BLOCKS, BLOCK = 16, 4_096
#: Training samples looked through, at most.
LOOKED_THROUGH = 1_000_000
#: A short training meets little of its data, leaked or not: the stream is looked through for so many times
#: its length, about what the trainings of an experiment read, but then for no more than so many samples.
FURTHER, FURTHER_SAMPLES = 64, 2**17
#: Share of evaluation samples that may be met in the training stream beyond what chance explains.
TOLERATED = 0.01
#: How many standard deviations chance is given, and samples that are added to counts: one of none does not
#: say that there is no chance.
DEVIATIONS, ADDED = 5.0, 4


def check_training(training: Training) -> dict[str, Any]:
    """Looks at the data and at a user's model, both opened in this process.

    Returns:
        What the data source says of itself.

    Raises:
        ConfigError: either breaks its contract; the workload asks for what virtual groups do not have; or see
            ``refuse_split`` and ``refuse_training_samples``.
    """
    workload = training.workload
    for table in workload.tables:
        for field, value, known in (
            ("pooling", table.pooling, ("sum", "mean")),
            ("dtype", table.dtype, ("fp32",)),
        ):
            if value not in known:
                raise ConfigError(
                    f"tables.{table.name}.{field}",
                    value,
                    "virtual groups do not have this.",
                    f"Use one of {list(known)}, or compare real runs with `sparse2d compare`.",
                )
    accumulator = workload.defaults.optimizer.initial_accumulator
    if accumulator:
        raise ConfigError(
            "defaults.optimizer.initial_accumulator",
            accumulator,
            "virtual groups start their sums of squares at 0, and would not train what real runs train.",
            "Set it to 0 in the workload, or compare real runs with `sparse2d compare`.",
        )
    source_class(workload).check(workload)
    source = open_source(workload, training.seed)
    about = described(source, workload.data.source)
    refuse_split(training, source)
    refuse_training_samples(training, source)
    if workload.model.factory is not None:
        import torch  # takes seconds, and only a user's own code can be wrong here

        from suite.implementations.model import build_model

        build_model(workload, training.seed, torch.device("cpu"))
    return about


def refuse_split(training: Training, source: DataSource) -> None:
    """Refuses an evaluation split that no model can be judged on.

    Raises:
        ConfigError: ``data.source``: there is no evaluation split, it says that it is the training split, or
            its labels are all alike.
    """
    size, batch = source.evaluation_size, training.global_batch
    if size == 0:
        raise _refused(training, "it has no evaluation split.", "Give it one: see suite.data.")
    split = str(source.describe().get("split", "evaluation"))
    if {"train", "training"} & set(re.split(r"[^a-z]+", split.lower())):
        raise _by_heart(
            training,
            f"its evaluation split says that it is {split!r}",
            " If these are not, let describe() call the split otherwise.",
        )
    labels: set[float] = set()
    for start in range(0, size, batch):
        labels.update(np.unique(_evaluation(training, source, start, start + batch).labels).tolist())
        if len(labels) > 1:
            return
    raise _refused(
        training,
        f"all {size:,} evaluation samples have the label {labels.pop():g}, and one class has no AUC.",
        "Evaluate on samples of both labels.",
    )


def refuse_training_samples(training: Training, source: DataSource) -> None:
    """Refuses an evaluation split of which more is met in the training stream than chance explains.

    Samples are compared whole: features, ids and label. Honest ones may coincide, the more often the fewer
    and smaller the tables. What is in the evaluation split twice is left out on both sides. Of the L others,
    the share that chance brings among the first n training samples is at most each of

        the share of these n that is met among the others of them, since honest evaluation samples are samples
            like them
        n / L * 2 N2 / L, with N2 samples that are in the split just twice: how often what was met once is met
            again in as many samples (I. J. Good, Biometrika 40, 1953), times how many more there are

    From the second epoch on the first explains everything, and earlier where training draws with replacement;
    for large n so does the second. So it is asked for every n.

    Raises:
        ConfigError: ``data.source``.
    """
    split, counts = np.unique(_evaluation_keys(training, source), return_counts=True)
    wanted, twice = split[counts == 1], int((counts == 2).sum())
    stream = _training_keys(training, source)
    stream = stream[~np.isin(stream, split[counts > 1])]
    if not (len(wanted) and len(stream)):
        return
    met, again = _met(wanted, stream)
    n, size = np.arange(1, len(stream) + 1), len(wanted)
    share, seen_again = again / n, 2 * twice / size
    as_training = share + np.maximum(TOLERATED, _deviations(share, size, n))
    as_evaluation = np.maximum(1, n / size) * (seen_again + _deviations(seen_again, size, size)) + TOLERATED
    if (met / size > np.minimum(as_training, as_evaluation)).any():
        raise _by_heart(
            training,
            f"{met[-1]:,} of {size:,} evaluation samples are among the first {len(stream):,} of the training "
            "stream",
        )


def _refused(training: Training, what: str, remedy: str) -> ConfigError:
    return ConfigError("data.source", training.workload.data.source, what, remedy)


def _by_heart(training: Training, what: str, more: str = "") -> ConfigError:
    return _refused(
        training,
        f"{what}: a model that learnt its answers by heart would be judged good.",
        f"Evaluate on samples that are not trained on.{more}",
    )


def _met(wanted: np.ndarray, stream: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For n = 1, 2, ...: how many wanted keys the first n of the stream hold, and how many of these recur."""
    known, first, key = np.unique(stream, return_index=True, return_inverse=True)
    found = first[np.isin(known, wanted, assume_unique=True)]
    met = np.cumsum(np.bincount(found, minlength=len(stream)))
    later = np.flatnonzero(first[key] != np.arange(len(stream)))
    again = np.bincount(later, minlength=len(stream))
    _, second = np.unique(key[later], return_index=True)
    again[later[second]] += 1  # with the second the first recurs, too
    return met, np.cumsum(again)


def _deviations(share: np.ndarray | float, size: int, n: np.ndarray | int) -> np.ndarray:
    """How far above a share of n that recur a share of ``size`` may be by chance."""
    # What recurs comes in pairs: twice the variance. Counts of a few are not normal: hence the last summand.
    return DEVIATIONS * np.sqrt((share + ADDED / n) * (1 / size + 2 / n)) + ADDED / size


def _evaluation(training: Training, source: DataSource, start: int, stop: int) -> Samples:
    stop = min(stop, source.evaluation_size)
    samples = source.evaluation(start, stop)
    check_samples(samples, training.workload, stop - start)
    return samples


def _evaluation_keys(training: Training, source: DataSource) -> np.ndarray:
    size = source.evaluation_size
    starts = range(0, size, BLOCK)
    if len(starts) > BLOCKS:
        starts = range(0, size - BLOCK + 1, (size - BLOCK) // (BLOCKS - 1))
    blocks = (_evaluation(training, source, start, start + BLOCK) for start in starts)
    return np.concatenate([_keys(block, training.workload.features) for block in blocks])


def _training_keys(training: Training, source: DataSource) -> np.ndarray:
    """Of the stream from its beginning: what is trained on step by step, what follows in blocks."""
    workload, batch = training.workload, training.global_batch
    trained = training.steps * batch
    total = min(LOOKED_THROUGH, max(trained, min(FURTHER * trained, FURTHER_SAMPLES)))
    total = total // batch * batch or total
    keys: list[np.ndarray] = []
    start = 0
    while start < total:
        size = min(batch if start < trained else max(batch, BLOCK), total - start)
        try:
            samples = source.train(start, start + size)
            check_samples(samples, workload, size)
        except Exception:
            if start < trained:
                raise
            break  # a source need not have more than is trained on
        keys.append(_keys(samples, workload.features))
        start += size
    return np.concatenate(keys)


def _keys(samples: Samples, features: tuple[str, ...]) -> np.ndarray:
    """A 64-bit hash of each sample, [B]."""
    keys = np.zeros(len(samples.labels), np.uint64)
    for column in (samples.labels, *samples.dense.T):
        keys = _mixed(keys + np.ascontiguousarray(column).view(np.uint32))
    for feature in features:
        ids, lengths = samples.sparse[feature]
        ends = np.cumsum(lengths)
        place = np.arange(len(ids)) - np.repeat(ends - lengths, lengths)
        sums = np.zeros(len(ids) + 1, np.uint64)
        np.cumsum(_mixed(_mixed(ids.astype(np.uint64)) + place.astype(np.uint64)), out=sums[1:])
        keys = _mixed(keys + lengths.astype(np.uint64))
        keys = _mixed(keys + (sums[ends] - sums[ends - lengths]))
    return keys


def _mixed(x: np.ndarray) -> np.ndarray:
    """SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
