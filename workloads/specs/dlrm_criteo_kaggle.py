"""DLRM as its authors train it on Criteo's Kaggle data: 26 one-hot tables, dim 16.

Layers and rows are those of facebookresearch/dlrm (``bench/dlrm_s_criteo_kaggle.sh``, and the number of
values that its preprocessing finds in each column, 33,762,577 in all). By default ids and clicks are
synthetic, so that it runs anywhere; ``data=criteo_kaggle`` takes Criteo's own from a folder of yours
(``workloads.data.criteo``):

    sparse2d run dlrm_criteo_kaggle,data=criteo_kaggle,row_factor=1 --data FOLDER

Values are hashed into the tables' rows, so that at ``row_factor=1`` some share a row. The default is for a
laptop: 1 / 100 of the rows of large tables, 22 MB. The optimizer is row-wise AdaGrad as elsewhere in this
suite, not the script's SGD.
"""

from __future__ import annotations

from suite.spec import BatchSpec, ModelSpec, TableSpec, TrainingDefaults, WorkloadSpec
from workloads.specs._criteo import criteo_data, criteo_name
from workloads.specs._scaled import scaled_name, scaled_rows

DIM = 16
KAGGLE_ROWS = (
    *(1_460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5_683, 8_351_593, 3_194, 27),
    *(14_992, 5_461_306, 10, 5_652, 2_173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572),
)
LAPTOP_ROW_FACTOR = 0.01
LAPTOP_BATCH = 1_024


def dlrm_criteo_kaggle(
    row_factor: float = LAPTOP_ROW_FACTOR,
    global_batch: int = LAPTOP_BATCH,
    data: str = "synthetic",
    days: int = 24,
    lines: str = "published",
    frequency_threshold: int = 0,
) -> WorkloadSpec:
    """DLRM on 26 tables of the Kaggle data's sizes, times ``row_factor``."""
    name = scaled_name("dlrm_criteo_kaggle", row_factor, LAPTOP_ROW_FACTOR)
    name = criteo_name(name, data, days, frequency_threshold)
    return WorkloadSpec(
        name=name if global_batch == LAPTOP_BATCH else f"{name}_batch_{global_batch}",
        description=f"DLRM on Criteo Kaggle's 26 tables at {row_factor:g} of their rows (or 1,000), "
        f"{data} clicks",
        model=ModelSpec(dense_features=13, bottom_mlp=(512, 256, 64, DIM), over_mlp=(512, 256, 1)),
        tables=tuple(
            TableSpec(
                name=f"t_cat_{number}",
                rows=scaled_rows(rows, row_factor),
                dim=DIM,
                features=(f"cat_{number}",),
            )
            for number, rows in enumerate(KAGGLE_ROWS)
        ),
        data=criteo_data(
            data,
            days,
            lines,
            frequency_threshold,
            {"zipf_exponent": 1.05, "signal": 2.0, "bias": -1.0, "eval_samples": 16_384, "teacher_seed": 0},
        ),
        batch=BatchSpec(global_size=global_batch, per_rank=max(1, global_batch // 2)),
        defaults=TrainingDefaults(steps=60, warmup_steps=10),
    )
