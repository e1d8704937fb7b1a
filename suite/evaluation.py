"""Prediction after training: every rank predicts its share of the evaluation split, rank 0 collects them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch.distributed as dist

from suite.batches import RankBatches
from suite.implementation import Implementation


def predict(
    implementation: Implementation, batches: RankBatches, done: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Predicts the evaluation split. Collective: every rank calls it.

    Args:
        implementation: what predicts; its replicas are made equal first.
        batches: this rank's share of the split.
        done: told how many global batches are done, after each.

    Returns:
        On rank 0 the labels and the scores of the whole split, in its order, so that they do not depend on
        which rank predicted what. None on other ranks, and where there is no evaluation split.

    Raises:
        ValueError: the implementation's scores are not one for each sample.
    """
    if batches.evaluation_batches == 0:
        return None
    implementation.sync_replicas()
    part = _predict_share(implementation, batches, done)
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] | None = None
    if dist.get_rank() == 0:
        parts = [part] * dist.get_world_size()
    dist.gather_object(part, parts, dst=0)
    if parts is None:
        return None
    indices, labels, scores = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(indices)
    return labels[order], scores[order]


def _predict_share(
    implementation: Implementation, batches: RankBatches, done: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    indices, labels, scores = [], [], []
    for index in range(batches.evaluation_batches):
        batch = batches.evaluation(index)
        predicted = implementation.predict(batch)
        if predicted.shape != batch.labels.shape:
            raise ValueError(
                f"predict gave scores of shape {list(predicted.shape)} for {len(batch.labels)} samples."
            )
        scores.append(predicted.cpu().numpy())
        labels.append(batch.labels.cpu().numpy())
        indices.append(np.arange(*batches.evaluation_range(index)))
        done(index + 1)
    return np.concatenate(indices), np.concatenate(labels), np.concatenate(scores)
