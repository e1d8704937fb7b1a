"""Runs one training of the quality lab in this process, and scores it along the way."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from suite.batches import to_batch
from suite.data import DataSource, open_source
from suite.errors import RunFailed, non_finite_loss
from suite.implementations.model import build_model
from suite.implementations.sharded import dense_optimizer
from suite.metrics.quality import quality
from suite.quality.library import Point, TrainingResult
from suite.quality.optimizers import row_optimizer
from suite.quality.spec import Training
from suite.quality.virtual import VirtualReplicas
from suite.samples_check import check_samples

CPU = torch.device("cpu")


class VirtualTraining:
    """A training that is taken step by step. Its parts are attributes, for tests and diagnostics."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.source: DataSource = open_source(training.workload, training.seed)
        self._split = str(self.source.describe().get("split", "evaluation"))
        torch.manual_seed(training.seed)
        self.model: nn.Module = build_model(training.workload, training.seed, CPU)
        self.replicas = VirtualReplicas(
            self.model,
            row_optimizer(training.optimizer, training.replica_groups),
            training.seed,
            training.sync_interval,
            training.sync_optimizer_state == "delayed",
        )
        self._dense = dense_optimizer(training.optimizer.dense, self.model.parameters())
        self._steps = 0

    def step(self) -> float:
        """Trains on the next global batch; returns its mean loss before the update."""
        size, workload = self.training.global_batch, self.training.workload
        start = self._steps * size
        samples = self.source.train(start, start + size)
        check_samples(samples, workload, size)
        batch = to_batch(samples, workload.features, 1 / size, CPU)
        self.replicas.begin_step(size)
        self._dense.zero_grad()
        logits = batch.logits_of(self.model(batch.dense, batch.sparse))
        loss = batch.loss_scale * nn.functional.binary_cross_entropy_with_logits(
            logits, batch.labels, reduction="sum"
        )
        loss.backward()
        self.replicas.end_step()
        self._dense.step()
        self._steps += 1
        return float(loss.detach())

    def score(self) -> Point:
        """Quality on the whole evaluation split, with the groups averaged as a sync would.

        Raises:
            RunFailed: a score is not finite: the last update diverged, and no loss has met it yet.
        """
        size, total = self.training.global_batch, self.source.evaluation_size
        labels, scores = [], []
        self.model.eval()
        with torch.no_grad():
            for start in range(0, total, size):
                samples = self.source.evaluation(start, min(start + size, total))
                check_samples(samples, self.training.workload, len(samples.labels))
                batch = to_batch(samples, self.training.workload.features, 1.0, CPU)
                logits = batch.logits_of(self.model(batch.dense, batch.sparse))
                scores.append(torch.sigmoid(logits).numpy())
                labels.append(samples.labels)
        self.model.train()
        predicted = np.concatenate(scores)
        if not np.isfinite(predicted).all():
            raise diverged(self.training, float("nan"), f"A score is not finite after step {self._steps}")
        return Point(
            samples=self._steps * size, quality=quality(np.concatenate(labels), predicted, self._split)
        )


def diverged(training: Training, loss: float, what: str) -> RunFailed:
    """The error of a training that diverged; ``what`` happened, and in which step."""
    return non_finite_loss(
        loss,
        f"{what} of M = {training.replica_groups}, {training.optimizer.name}, "
        f"learning rate {training.optimizer.learning_rate:g}, seed {training.seed}.",
    )


def train(training: Training) -> TrainingResult:
    """Trains to the end.

    Raises:
        ConfigError: the model or the data break their contract.
        RunFailed: the loss or a score is not finite.
    """
    run = VirtualTraining(training)
    curve: list[Point] = []
    loss = float("nan")
    for step in range(1, training.steps + 1):
        loss = run.step()
        if not np.isfinite(loss):
            raise diverged(training, loss, f"The loss is {loss} in step {step}")
        if step in training.scored_after:
            curve.append(run.score())
    return TrainingResult(training=training, curve=tuple(curve), last_loss=loss)
