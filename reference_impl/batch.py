"""One rank's share of a global batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from reference_impl.errors import InvalidConfiguration


@dataclass(frozen=True)
class Batch:
    """B local samples of a global batch of G over T ranks, and P - B empty ones after them.

    Attributes:
        dense: float32 [P, dense_features].
        sparse: F features of P samples each; ids int64, lengths int32.
        labels: float32 [B]. Only the first B logits count, so an empty sample has no gradient.
        loss_scale: T / G. The local loss is the SUM over local samples times this, so that averaging
            gradients over the T ranks gives the mean over the global batch, also where ranks hold unlike
            numbers of samples, or none (a mean over an empty batch would be NaN).

    Raises:
        InvalidConfiguration: ids or lengths of another dtype.
    """

    dense: torch.Tensor
    sparse: KeyedJaggedTensor
    labels: torch.Tensor
    loss_scale: float

    def __post_init__(self) -> None:
        # A rank without ids is where another dtype slips in, and then ranks send each other unlike bytes:
        # TorchRec hangs, or trains on what is none of its ids.
        for what, tensor, dtype in (
            ("values", self.sparse.values(), torch.int64),
            ("lengths", self.sparse.lengths(), torch.int32),
        ):
            if tensor.dtype != dtype:
                raise InvalidConfiguration(
                    f"batch.sparse.{what}",
                    str(tensor.dtype),
                    "every rank must send the same dtype, whatever it holds.",
                    f"Give {dtype}.",
                )

    def logits_of(self, output: torch.Tensor) -> torch.Tensor:
        """The logits of the B samples, shape [B], out of a model's output for all P, [P] or [P, 1].

        Raises:
            InvalidConfiguration: the model does not return one logit a sample.
        """
        padded = self.dense.shape[0]
        if output.numel() != padded:
            raise InvalidConfiguration(
                "model.factory",
                list(output.shape),
                f"this is the shape of the model's output for {padded} samples.",
                "Return one logit a sample.",
            )
        return output.reshape(-1)[: len(self.labels)]

    def padded_to(self, size: int) -> Batch:
        """The same samples, followed by empty ones (dense features zero, no ids) up to P = ``size``.

        Every rank must hold equally many: the backward of row-wise sharding gathers equal blocks, and
        TorchRec's mean pooling cannot handle a batch of none. ``RankLayout.largest_slice`` says how many.
        """
        missing = size - self.dense.shape[0]
        if missing == 0:
            return self
        keys = self.sparse.keys()
        lengths = self.sparse.lengths().reshape(len(keys), -1)
        return Batch(
            dense=torch.cat([self.dense, self.dense.new_zeros(missing, self.dense.shape[1])]),
            sparse=KeyedJaggedTensor(
                keys=keys,
                values=self.sparse.values(),
                lengths=torch.cat([lengths, lengths.new_zeros(len(keys), missing)], dim=1).reshape(-1),
            ),
            labels=self.labels,
            loss_scale=self.loss_scale,
        )
