"""The vocabulary of a language model: one large table, unpooled (claim C10 of docs/paper.md).

256,000 tokens x 64 (66 MB) and a model of 41,152 parameters that tells true next tokens from noise. Five
tokens a sample, each of which comes back as a vector of its own. The best AUC is 0.894 by construction
(``workloads.data.token_stream``); 1D stands at about 0.80 after the default 100 steps. ``row_factor``
scales the vocabulary.

One table on many ranks is row-wise by default: table-wise would leave all but one rank of a group idle.
"""

from __future__ import annotations

from suite.spec import (
    BatchSpec,
    DataSpec,
    DenseOptimizerSpec,
    ModelSpec,
    OptimizerSpec,
    TableSpec,
    TrainingDefaults,
    WorkloadSpec,
)
from workloads.specs._scaled import scaled_name, scaled_rows

DIM = 64


def lm_vocabulary(row_factor: float = 1.0) -> WorkloadSpec:
    """One table of 256,000 tokens x ``row_factor``, and a small next-token model."""
    return WorkloadSpec(
        name=scaled_name("lm_vocabulary", row_factor, 1.0),
        description="a language model's vocabulary: one unpooled table, true next tokens against noise",
        model=ModelSpec(
            factory="workloads.models.next_token:next_token", dense_features=0, over_mlp=(128, DIM)
        ),
        tables=(
            TableSpec(
                name="vocabulary",
                rows=scaled_rows(256_000, row_factor),
                dim=DIM,
                features=("context", "candidate"),
                pooling="none",
                pooling_factor=2.5,  # four tokens of context and one candidate
            ),
        ),
        data=DataSpec(
            source="workloads.data.token_stream:TokenStream",
            options={
                "context": 4,
                "classes": 8,
                "predictability": 0.9,
                "zipf_exponent": 1.05,
                "eval_samples": 16_384,
                "language_seed": 0,
            },
        ),
        batch=BatchSpec(global_size=1_024, per_rank=512),
        defaults=TrainingDefaults(
            optimizer=OptimizerSpec(
                name="rowwise_adagrad",
                learning_rate=0.1,
                dense=DenseOptimizerSpec(name="adagrad", learning_rate=0.01),
            ),
            sharding="row_wise",
            steps=100,
            warmup_steps=10,
        ),
    )
