"""What is refused before the first training: models and data that do not fit, and judging by heart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from suite.data import DataSource, Samples, open_source, source_class
from suite.errors import ConfigError
from suite.quality.spec import Training

#: Evaluation samples looked for in the training stream, and training samples looked through, at most.
LOOKED_FOR = 4_096
LOOKED_THROUGH = 1_000_000


def check_training(training: Training) -> None:
    """Looks at the data and at a user's model, both opened in this process.

    Raises:
        ConfigError: either breaks its contract, or see ``refuse_training_samples``.
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
    source_class(workload).check(workload)
    refuse_training_samples(training, open_source(workload, training.seed))
    if workload.model.factory is not None:
        import torch  # takes seconds, and only a user's own code can be wrong here

        from suite.implementations.model import build_model

        build_model(workload, training.seed, torch.device("cpu"))


def refuse_training_samples(training: Training, source: DataSource) -> None:
    """Compares samples byte for byte: features, ids and label.

    Where evaluation samples are hardly distinct themselves (small tables, no dense features), the same one
    in the training stream means nothing, and nothing is refused.

    Raises:
        ConfigError: ``data.source``: there is no evaluation split, it says that it is the training split, or
            more than half of the samples looked for are in the training stream.
    """
    workload = training.workload
    if source.evaluation_size == 0:
        raise ConfigError(
            "data.source", workload.data.source, "it has no evaluation split.", "Give it one: see suite.data."
        )
    split = str(source.describe().get("split", "evaluation"))
    if split.lower() in ("train", "training"):
        raise _refused(training, f"its evaluation split says that it is {split!r}")
    looked_for = set(
        _samples(source.evaluation(0, min(LOOKED_FOR, source.evaluation_size)), workload.features)
    )
    if len(looked_for) < 0.9 * min(LOOKED_FOR, source.evaluation_size):
        return
    seen = set()
    total = min(training.steps * training.global_batch, LOOKED_THROUGH)
    for start in range(0, total, training.global_batch):
        stop = min(start + training.global_batch, total)
        seen |= looked_for.intersection(_samples(source.train(start, stop), workload.features))
    if len(seen) > 0.5 * len(looked_for):
        raise _refused(
            training, f"{len(seen):,} of {len(looked_for):,} evaluation samples are in the training stream"
        )


def _refused(training: Training, what: str) -> ConfigError:
    return ConfigError(
        "data.source",
        training.workload.data.source,
        f"{what}: a model that learnt its answers by heart would be judged good.",
        "Evaluate on samples that are not trained on.",
    )


def _samples(samples: Samples, features: tuple[str, ...]) -> Iterator[bytes]:
    """One key a sample."""
    ends = {feature: np.cumsum(samples.sparse[feature][1]) for feature in features}
    for i in range(len(samples.labels)):
        bags = (
            samples.sparse[f][0][ends[f][i] - samples.sparse[f][1][i] : ends[f][i]].tobytes()
            for f in features
        )
        yield b"|".join((samples.dense[i].tobytes(), samples.labels[i].tobytes(), *bags))
