"""Text of a planted language: contexts, and candidates that are the true next token or noise.

The vocabulary is divided into K equal classes by hidden assignment. Text is drawn token by token:

    with probability q the next token is of the class that follows the last token's class (a fixed
    permutation), else of any class alike; within its class it is drawn by a Zipf law

so that over all positions a token's frequency is 1 / K of that law, whatever q is. A sample is
``context`` tokens of text and one candidate: with probability 1/2 the token that comes next (label 1),
else a token drawn by frequency (label 0). Only the classes of the last token and of the candidate tell
the two apart: with b = 1 / K, a candidate of the class that follows is the true one with odds q K + 1 -
q, any other with odds 1 - q, and scoring by whether the class follows is the best there is. Its AUC,
``best_auc``, is known:

    P(class follows | label 1) = q + (1 - q) b,  P(class follows | label 0) = b,  AUC = (1 + q (1 - b)) / 2

Every sample is a function of (seed, index), as in ``synthetic``: nothing is stored.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from suite.data import DataSource, Samples
from suite.errors import ConfigError
from suite.spec import Frozen, TableSpec, WorkloadSpec, validated
from workloads.data.counter_random import key, permutation, uniform
from workloads.data.synthetic import MAX_ROWS, digest, scattered, zipf_rank


class TokenOptions(Frozen):
    """``data.options`` of TokenStream."""

    #: Tokens in a context.
    context: Annotated[int, Field(ge=1, le=1024)] = 4
    #: K.
    classes: Annotated[int, Field(ge=2, le=2**20)] = 8
    #: q.
    predictability: Annotated[float, Field(ge=0, le=1)] = 0.9
    #: Of tokens within a class.
    zipf_exponent: Annotated[float, Field(ge=0, le=3)] = 1.05
    eval_samples: Annotated[int, Field(ge=0, le=2**31)] = 16_384
    #: Of the classes' order and of the evaluation split.
    language_seed: Annotated[int, Field(ge=0, lt=2**31)] = 0


class TokenStream(DataSource):
    """See the module's docstring. The one table's features are the context and the candidate."""

    @classmethod
    def check(cls, workload: WorkloadSpec) -> None:
        """Refuses wrong options, a location, and other tables than one with two features."""
        options = validated(TokenOptions, workload.data.options, "data.options.")
        if workload.data.location is not None:
            raise ConfigError(
                "data.location",
                workload.data.location,
                "this text is generated, not read from a folder.",
                "Leave it out.",
            )
        if len(workload.tables) != 1 or len(workload.tables[0].features) != 2:
            raise ConfigError(
                "tables",
                [t.name for t in workload.tables],
                "this text needs one table with two features, the context and the candidate.",
                "Give one table with two features.",
            )
        rows = workload.tables[0].rows
        if not options.classes <= rows <= MAX_ROWS:
            raise ConfigError(
                f"tables.{workload.tables[0].name}.rows",
                rows,
                f"{options.classes} classes need between {options.classes} and {MAX_ROWS} tokens.",
                "Change the rows, or data.options.classes.",
            )
        if workload.model.dense_features != 0:
            raise ConfigError(
                "model.dense_features",
                workload.model.dense_features,
                "this text comes without dense features.",
                "Use 0.",
            )

    def __init__(self, workload: WorkloadSpec, seed: int) -> None:
        self.check(workload)
        self._options = validated(TokenOptions, workload.data.options, "data.options.")
        self._table: TableSpec = workload.tables[0]
        self._train = key("train", seed)
        self._evaluation = key("evaluation", self._options.language_seed)
        self.follows = permutation(key("classes", self._options.language_seed), self._options.classes)

    def train(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of the endless training stream."""
        return self._draw(self._train, start, stop)

    @property
    def evaluation_size(self) -> int:
        """The option ``eval_samples``."""
        return self._options.eval_samples

    def evaluation(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of the evaluation split; the same for every run seed."""
        return self._draw(self._evaluation, start, stop)

    def describe(self) -> dict[str, Any]:
        """Also ``bayes_auc``, which no model can beat but by luck of the split."""
        labels = self.evaluation(0, self.evaluation_size).labels
        return {
            "source": "synthetic text of a planted language",
            "fingerprint": digest(self.evaluation(0, 256)),
            "split": f"synthetic evaluation stream, language_seed {self._options.language_seed}",
            "train_samples": None,
            "evaluation_samples": self.evaluation_size,
            "base_rate": float(labels.mean(dtype=np.float64)) if len(labels) else None,
            "bayes_auc": best_auc(self._options.predictability, self._options.classes),
        }

    def _draw(self, stream: int, start: int, stop: int) -> Samples:
        index = np.arange(start, stop)
        length, classes = self._options.context, self._options.classes
        # Text of length + 1 tokens, class by class; position ``length`` is the true next token.
        text = np.empty((len(index), length + 1), np.int64)
        for position in range(length + 1):
            text[:, position] = self._any_class(key(stream, "class"), index, position)
            if position:
                kept = uniform(key(stream, "kept"), index, np.full_like(index, position))
                predicted = kept < self._options.predictability
                text[predicted, position] = self.follows[text[predicted, position - 1]]
        labels = uniform(key(stream, "label"), index) < 0.5
        noise = self._any_class(key(stream, "noise class"), index, 0)
        candidate = np.where(labels, text[:, length], noise)
        words = np.concatenate([text[:, :length], candidate[:, None]], axis=1)
        positions = np.broadcast_to(np.arange(length + 1), words.shape)
        drawn = uniform(key(stream, "word"), np.broadcast_to(index[:, None], words.shape), positions)
        hotness = zipf_rank(drawn, self._table.rows // classes, self._options.zipf_exponent)
        ids = scattered(hotness * classes + words, self._table.rows)
        context, next_one = self._table.features
        return Samples(
            dense=np.empty((len(index), 0), np.float32),
            labels=labels.astype(np.float32),
            sparse={
                context: (ids[:, :length].reshape(-1), np.full(len(index), length, np.int32)),
                next_one: (ids[:, length].copy(), np.ones(len(index), np.int32)),
            },
        )

    def _any_class(self, stream: int, index: np.ndarray, position: int) -> np.ndarray:
        drawn = uniform(stream, index, np.full_like(index, position))
        return (drawn * self._options.classes).astype(np.int64)


def best_auc(predictability: float, classes: int) -> float:
    """AUC of scoring a candidate by whether its class follows the last token's class; ties count half.

    With a and b the probabilities that it follows for label 1 and 0, a pair is won with probability
    a (1 - b) and tied with a b + (1 - a) (1 - b): together (1 + a - b) / 2.
    """
    return (1 + predictability * (1 - 1 / classes)) / 2
