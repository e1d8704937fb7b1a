"""The optimizers of the embedding tables, as FBGEMM's fused backward runs them.

The gradient of a table is never materialised: FBGEMM applies the optimizer row by row inside the backward
pass. ``KINDS`` lists what it offers, and on which device. AdaGrad keeps a second moment v an element;
row-wise AdaGrad keeps ONE a row (g is the row's gradient, eps outside the root):

    v <- v + mean(g^2)              mean over the row's columns
    w <- w - lr * g / (sqrt(v) + eps)

Momentum-scaled row-wise AdaGrad (2D sparse parallelism, reading R1 of arXiv 2508.03854, second-hand)
divides v by a constant c, because with M groups v grows faster: a group's mean gradient is noisier, and
a row that only one group sees has an M times larger gradient there. The default is c = M.

    w <- w - lr * g / (sqrt(v / c) + eps)

Multiply numerator and denominator by sqrt(c):

    w <- w - (lr * sqrt(c)) * g / (sqrt(v) + (eps * sqrt(c)))

So a constant c IS a learning-rate rule: plain row-wise AdaGrad with lr * sqrt(c) and eps * sqrt(c). That
is how it is run here, on FBGEMM's own kernel, and why "the optimizer" and "the effective learning rate"
cannot be told apart by any experiment with a constant c.

The AdaGrad kinds may start from an accumulator v_0 above zero. It is v that is divided by c, so under
momentum scaling the first steps see v_0 / c. Likewise an accumulator that was built at c = 1: from v on,
training with a c > 1 takes up to sqrt(c) times larger steps at once, as training with the larger learning
rate would. Only v * c would go on with steps of the size it had.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    import torch

Name = Literal[
    "sgd",
    "adagrad",
    "rowwise_adagrad",
    "momentum_scaled_rowwise_adagrad",
    "adam",
    "partial_rowwise_adam",
    "lamb",
    "partial_rowwise_lamb",
    "lars_sgd",
]
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class Kind:
    """What FBGEMM makes of an optimizer.

    Attributes:
        fbgemm: name of its EmbOptimType.
        devices: where its fused kernel exists.
        states: its state tensors, each with a number an "element" or a "row".
        whole_rows: a row's update depends on all its columns, so that cutting columns changes it.
        accumulates: its only state is a sum of squares, which may start above zero.
        has_eps: adds eps to a root.
    """

    fbgemm: str
    devices: tuple[Device, ...]
    states: tuple[Literal["element", "row"], ...]
    whole_rows: bool
    accumulates: bool = False
    has_eps: bool = True


#: FBGEMM 1.8. What is left out of it: the approximate and the deprecated ones, which it refuses itself,
#: and two that keep a moving average of the weights beside them (EMA, ensemble), which averaging replicas
#: would mix. Adam, LAMB and LARS run with FBGEMM's own betas, momentum and weight decay (0.9, 0.999; 0.9;
#: 0).
KINDS: Mapping[Name, Kind] = {
    "sgd": Kind("EXACT_SGD", ("cpu", "cuda"), (), whole_rows=False, has_eps=False),
    "adagrad": Kind("EXACT_ADAGRAD", ("cpu", "cuda"), ("element",), whole_rows=False, accumulates=True),
    "rowwise_adagrad": Kind(
        "EXACT_ROWWISE_ADAGRAD", ("cpu", "cuda"), ("row",), whole_rows=True, accumulates=True
    ),
    "momentum_scaled_rowwise_adagrad": Kind(
        "EXACT_ROWWISE_ADAGRAD", ("cpu", "cuda"), ("row",), whole_rows=True, accumulates=True
    ),
    "adam": Kind("ADAM", ("cuda",), ("element", "element"), whole_rows=False),
    "partial_rowwise_adam": Kind("PARTIAL_ROWWISE_ADAM", ("cuda",), ("element", "row"), whole_rows=True),
    "lamb": Kind("LAMB", ("cuda",), ("element", "element"), whole_rows=True),
    "partial_rowwise_lamb": Kind("PARTIAL_ROWWISE_LAMB", ("cuda",), ("element", "row"), whole_rows=True),
    "lars_sgd": Kind("LARS_SGD", ("cuda",), ("element",), whole_rows=True, has_eps=False),
}


def offered_on(device: Device) -> tuple[Name, ...]:
    """The optimizers that FBGEMM has on a device."""
    return tuple(name for name in get_args(Name) if device in KINDS[name].devices)


@dataclass(frozen=True)
class EmbeddingOptimizer:
    """An optimizer with its numbers.

    Attributes:
        name: which.
        learning_rate: lr of the formulae above.
        eps: outside the root.
        scale: c of momentum scaling; 1 for the others.
        initial_accumulator: v_0 of the AdaGrad kinds; 0 for the others.
    """

    name: Name
    learning_rate: float
    eps: float
    scale: float = 1.0
    initial_accumulator: float = 0.0

    def fused_params(self) -> dict[str, Any]:
        """What TorchRec hands to FBGEMM, which has no v_0: see ``start_``."""
        # Here and not above, so that a configuration can be checked without FBGEMM.
        from fbgemm_gpu.split_embedding_configs import EmbOptimType

        kind = KINDS[self.name]
        root = math.sqrt(self.scale) if self.name == "momentum_scaled_rowwise_adagrad" else 1.0
        given = {
            "optimizer": EmbOptimType[kind.fbgemm],
            "learning_rate": self.learning_rate * root,
        }
        return given | {"eps": self.eps * root} if kind.has_eps else given

    def start_(self, states: Sequence[torch.Tensor]) -> None:
        """Puts a shard's state before its first step: the accumulator of the AdaGrad kinds is v_0."""
        if KINDS[self.name].accumulates:
            states[0].fill_(self.initial_accumulator)
