"""DLRM-DCNv2 of MLPerf Training on tables of Criteo's sizes: 26 tables, 214 ids a sample, dim 128.

Rows, multi-hot sizes, layers and optimizer are those of MLPerf's reference (mlcommons/training,
recommendation_v2/torchrec_dlrm, README, "Running the MLPerf DLRM v2 benchmark"). By default ids and clicks
are not Criteo's but synthetic (``workloads.data.synthetic``), so the AUC has nothing to do with MLPerf's
target of 0.8030. ``data=criteo_1tb`` takes Criteo's own from a folder of yours (``workloads.data.criteo``):

    sparse2d run dlrm_dcnv2_criteo,data=criteo_1tb --data FOLDER

At ``row_factor=1`` the tables hold 204 million rows in 105 GB, with a global batch of 65,536 in MLPerf.
The default is for a laptop: 1 / 4,000 of the rows of large tables, and a batch of 256. The dense layers
are always MLPerf's, 16 million parameters: on CPU they, and not the tables, take most of a step.
"""

from __future__ import annotations

from suite.spec import (
    BatchSpec,
    CrossSpec,
    DenseOptimizerSpec,
    ModelSpec,
    OptimizerSpec,
    TableSpec,
    TrainingDefaults,
    WorkloadSpec,
)
from workloads.specs._criteo import criteo_data, criteo_name
from workloads.specs._scaled import scaled_name, scaled_rows

DIM = 128
#: Of features 0 to 25: ``--num_embeddings_per_feature`` and ``--multi_hot_sizes``.
MLPERF_ROWS = (
    *(40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956, 405_282, 10),
    *(2_209, 11_938, 155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36),
)
MLPERF_IDS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
LAPTOP_ROW_FACTOR = 0.00025
LAPTOP_BATCH = 256


def dlrm_dcnv2_criteo(
    row_factor: float = LAPTOP_ROW_FACTOR,
    global_batch: int = LAPTOP_BATCH,
    data: str = "synthetic",
    days: int = 24,
    lines: str = "published",
    frequency_threshold: int = 0,
) -> WorkloadSpec:
    """MLPerf's DLRM-DCNv2 with its tables' rows times ``row_factor``."""
    name = scaled_name("dlrm_dcnv2_criteo", row_factor, LAPTOP_ROW_FACTOR)
    name = criteo_name(name, data, days, frequency_threshold)
    return WorkloadSpec(
        name=name if global_batch == LAPTOP_BATCH else f"{name}_batch_{global_batch}",
        description=f"MLPerf's DLRM-DCNv2, its 26 tables at {row_factor:g} of their rows (or 1,000), "
        f"{data} clicks",
        model=ModelSpec(
            dense_features=13,
            bottom_mlp=(512, 256, DIM),
            over_mlp=(1024, 1024, 512, 256, 1),
            cross=CrossSpec(layers=3, low_rank=512),
        ),
        tables=tuple(
            TableSpec(
                name=f"t_cat_{number}",
                rows=scaled_rows(rows, row_factor),
                dim=DIM,
                features=(f"cat_{number}",),
                pooling_factor=ids,
            )
            for number, (rows, ids) in enumerate(zip(MLPERF_ROWS, MLPERF_IDS, strict=True))
        ),
        data=criteo_data(
            data,
            days,
            lines,
            frequency_threshold,
            {"zipf_exponent": 1.05, "signal": 2.0, "bias": -1.0, "eval_samples": 2_048, "teacher_seed": 0},
        ),
        batch=BatchSpec(global_size=global_batch, per_rank=max(1, global_batch // 2)),
        defaults=TrainingDefaults(
            # MLPerf: ``--adagrad --learning_rate 0.005``, a moment an element, in tables and dense layers.
            optimizer=OptimizerSpec(
                name="adagrad",
                learning_rate=0.005,
                dense=DenseOptimizerSpec(name="adagrad", learning_rate=0.005),
            ),
            steps=12,
            warmup_steps=4,
        ),
    )
