"""The optimizers of the embedding tables, as FBGEMM's fused backward runs them.

The gradient of a table is never materialised: FBGEMM applies the optimizer row by row inside the
backward pass. Row-wise AdaGrad keeps ONE second moment v a row (g is the row's gradient, eps outside
the root):

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from fbgemm_gpu.split_embedding_configs import EmbOptimType

Name = Literal["sgd", "rowwise_adagrad", "momentum_scaled_rowwise_adagrad"]


@dataclass(frozen=True)
class EmbeddingOptimizer:
    """One of the three optimizers.

    Attributes:
        name: which.
        learning_rate: lr of the formulae above.
        eps: outside the root.
        scale: c of momentum scaling; 1 for the others.
    """

    name: Name
    learning_rate: float
    eps: float
    scale: float = 1.0

    def fused_params(self) -> dict[str, Any]:
        """What TorchRec hands to FBGEMM."""
        if self.name == "sgd":
            return {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": self.learning_rate}
        root = math.sqrt(self.scale) if self.name == "momentum_scaled_rowwise_adagrad" else 1.0
        return {
            "optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
            "learning_rate": self.learning_rate * root,
            "eps": self.eps * root,
        }
