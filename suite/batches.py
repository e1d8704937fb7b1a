"""From a data source's samples to the batch of one rank, checked and on the device."""

from __future__ import annotations

import numpy as np
import torch
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from reference_impl.batch import Batch
from suite.data import DataSource, Samples
from suite.samples_check import check_samples
from suite.spec import RunSpec


class RankBatches:
    """One rank's share of every global batch of a run.

    Which samples a rank takes is ``RankLayout.sample_range``: it depends on T and the rank's slice index
    alone, and may be empty.
    """

    def __init__(self, run: RunSpec, source: DataSource, rank: int, device: torch.device) -> None:
        self._run = run
        self._source = source
        self._rank = rank
        self._layout = run.layout.ranks()
        self._device = device

    def samples_before(self, step: int) -> int:
        """Samples of the stream that the steps before this one take, and those before the run's start."""
        return (0 if self._run.start is None else self._run.start.samples) + step * self._run.global_batch

    def train(self, step: int) -> Batch:
        """This rank's share of step ``step`` of the run: the G samples after ``samples_before(step)``.

        Raises:
            ConfigError: the data source breaks its contract.
        """
        size = self._run.global_batch
        start, stop = self._layout.sample_range(self._rank, size)
        first = self.samples_before(step)
        return self._batch(self._source.train(first + start, first + stop), stop - start, size)

    @property
    def evaluation_batches(self) -> int:
        """Global batches in the evaluation split; the last may be smaller than G."""
        return -(-self._source.evaluation_size // self._run.global_batch)

    def evaluation_range(self, index: int) -> tuple[int, int]:
        """Which samples of the evaluation split this rank takes of its global batch ``index``."""
        first = index * self._run.global_batch
        size = min(self._run.global_batch, self._source.evaluation_size - first)
        start, stop = self._layout.sample_range(self._rank, size)
        return first + start, first + stop

    def evaluation(self, index: int) -> Batch:
        """This rank's share of global batch ``index`` of the evaluation split.

        Raises:
            ConfigError: the data source breaks its contract.
        """
        start, stop = self.evaluation_range(index)
        return self._batch(self._source.evaluation(start, stop), stop - start, self._run.global_batch)

    def _batch(self, samples: Samples, size: int, global_batch: int) -> Batch:
        workload = self._run.workload
        check_samples(samples, workload, size)
        batch = to_batch(samples, workload.features, self._layout.world_size / global_batch, self._device)
        return batch.padded_to(self._layout.largest_slice(global_batch))


def to_batch(samples: Samples, features: tuple[str, ...], loss_scale: float, device: torch.device) -> Batch:
    """The same samples as tensors; the KeyedJaggedTensor's keys are ``features``, in that order."""
    ids = np.concatenate([samples.sparse[f][0] for f in features])
    lengths = np.concatenate([samples.sparse[f][1] for f in features])
    sparse = KeyedJaggedTensor.from_lengths_sync(
        keys=list(features), values=torch.from_numpy(ids), lengths=torch.from_numpy(lengths)
    )
    return Batch(
        dense=torch.tensor(samples.dense, device=device),
        sparse=sparse.to(device),
        labels=torch.tensor(samples.labels, device=device),
        loss_scale=loss_scale,
    )
