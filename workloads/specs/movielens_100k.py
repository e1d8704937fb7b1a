"""Real data: MovieLens 100K, "will this user rate this film 4 or higher?", three epochs.

In 1D the AUC after three epochs is about 0.785, with a standard deviation over seeds of about 0.001 (the
seed decides initial weights and the order of training, not the split). Small enough to train in seconds,
and its groups' batches are small enough to show what averaging replicas does to row-wise AdaGrad.

``size=25m`` (1m, 10m, 20m, 25m, 32m) is a larger data set of the same kind, from a folder of yours, with the
four features that they have in common; it trains on a million ratings by default:

    sparse2d parity movielens_100k,size=25m --data FOLDER
"""

from __future__ import annotations

from collections.abc import Mapping

from reference_impl.errors import InvalidConfiguration
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
from workloads.data.movielens import FEATURE_ROWS
from workloads.data.movielens_large import FACTS, feature_rows

DIM = 16


OPTIMIZER = OptimizerSpec(
    name="rowwise_adagrad",
    learning_rate=0.04,
    dense=DenseOptimizerSpec(name="adagrad", learning_rate=0.02),
)


def _table(feature: str, pooling_factor: float = 1.0, rows: Mapping[str, int] = FEATURE_ROWS) -> TableSpec:
    # Rounded up to a multiple of 8, so that row-wise sharding leaves none of up to 8 ranks without rows.
    most = -(-rows[feature] // 8) * 8
    return TableSpec(name=feature, rows=most, dim=DIM, features=(feature,), pooling_factor=pooling_factor)


def _large(size: str) -> WorkloadSpec:
    if size not in FACTS:
        raise InvalidConfiguration(
            "workload.size", size, "there is no MovieLens of this size.", f"Use one of {['100k', *FACTS]}."
        )
    rows = feature_rows(size)
    return WorkloadSpec(
        name=f"movielens_{size}",
        description=f"MovieLens {size.upper()}, label rating >= 4, four features, a million ratings",
        model=ModelSpec(dense_features=2, bottom_mlp=(32, DIM), over_mlp=(32, 1)),
        tables=(
            _table("user_id", rows=rows),
            _table("item_id", rows=rows),
            _table("release_year", rows=rows),
            _table("genres", pooling_factor=2.0, rows=rows),
        ),
        data=DataSpec(source="workloads.data.movielens_large:MovieLensLarge", options={"size": size}),
        batch=BatchSpec(global_size=1_024, per_rank=512),
        defaults=TrainingDefaults(optimizer=OPTIMIZER, steps=1_000, warmup_steps=10),
    )


def movielens_100k(size: str = "100k", split_seed: int = 0, features: str = "all") -> WorkloadSpec:
    """Eight user and film features, one of them multi-hot; see ``workloads/data/movielens.py``.

    ``features=one_hot`` leaves the multi-hot genres out, ``split_seed=1`` evaluates on other ratings.
    """
    if features not in ("all", "one_hot"):
        raise InvalidConfiguration(
            "workload.features", features, "there is no such choice.", "Use all or one_hot."
        )
    if size != "100k":
        if (split_seed, features) != (0, "all"):
            raise InvalidConfiguration(
                "workload.size", size, "split_seed and features are of 100k alone.", "Leave them out."
            )
        return _large(size)
    return WorkloadSpec(
        name="movielens_100k",
        description="MovieLens 100K, label rating >= 4, eight user and film features, three epochs",
        model=ModelSpec(dense_features=3, bottom_mlp=(32, DIM), over_mlp=(32, 1)),
        tables=(
            _table("user_id"),
            _table("item_id"),
            _table("age"),
            _table("gender"),
            _table("occupation"),
            _table("zip_region"),
            _table("release_year"),
            *([_table("genres", pooling_factor=2.1)] if features == "all" else []),
        ),
        data=DataSpec(
            source="workloads.data.movielens:MovieLens", options={"threshold": 4, "split_seed": split_seed}
        ),
        batch=BatchSpec(global_size=1_024, per_rank=512),
        defaults=TrainingDefaults(
            optimizer=OPTIMIZER,
            # 234 x 1,024 samples: three epochs of the 80,000 training samples.
            steps=234,
            warmup_steps=10,
        ),
    )
