"""What a run needs at least, against what is here: refused with the number, before anything is launched.

Lower bounds only: tables with their moments, dense parameters, one batch, and what a process with the stack
takes. A run that passes may still be too large; one that is refused surely is.
"""

from __future__ import annotations

from itertools import pairwise

from suite.environment import available_memory, visible_gpu_memory, visible_gpus
from suite.errors import ConfigError
from suite.spec import RunSpec, TableSpec

#: Of a rank that has imported the stack, not counting the pages that ranks share.
RANK_BYTES = 100 * 2**20
_ELEMENT = {"fp32": 4, "fp16": 2}


def check_machine(run: RunSpec) -> None:
    """Refuses a run that cannot be on this machine alone: too few GPUs, or too little memory.

    Raises:
        ConfigError: ``device``, or as ``check_capacity``.
    """
    if run.device == "cuda" and run.layout.world_size > visible_gpus():
        raise ConfigError(
            "device",
            run.device,
            f"{run.layout.world_size} ranks need as many GPUs; {visible_gpus()} are visible here.",
            "Use --device cpu, a smaller --world-size, or set CUDA_VISIBLE_DEVICES.",
        )
    check_capacity(run)


def check_capacity(run: RunSpec) -> None:
    """Refuses a run that cannot fit into this machine's memory, or into its GPUs'.

    Raises:
        ConfigError: naming what takes most, in bytes over all ranks.
    """
    world_size = run.layout.world_size
    needs: dict[str, tuple[int | None, int]] = {
        f"tables.{table.name}.rows": (table.rows, run.layout.replica_groups * _table_bytes(table, run))
        for table in run.workload.tables
    }
    needs["model"] = (None, world_size * _dense_bytes(run))
    batch = run.workload.batch
    size = ("batch.global_size", batch.global_size)
    if run.scaling == "weak":
        size = ("batch.per_rank", batch.per_rank)
    needs[size[0]] = (size[1], run.global_batch * _sample_bytes(run))
    if run.device == "cpu":
        needs["layout.world_size"] = (world_size, world_size * RANK_BYTES)
        have, here = available_memory(), "this machine has"
    else:
        have, here = visible_gpu_memory(), "the GPUs here have"
    total = sum(taken for _, taken in needs.values())
    if total <= have:
        return
    field, (value, taken) = max(needs.items(), key=lambda need: need[1][1])
    raise ConfigError(
        field,
        value,
        f"the run needs {_size(total)} at least, over all ranks, {_size(taken)} of it for this; "
        f"{here} {_size(have)}.",
        "Use fewer rows, ranks or replica groups, a smaller batch or model, or a larger machine.",
    )


def _table_bytes(table: TableSpec, run: RunSpec) -> int:
    """Of one copy: weights, and one float32 moment a row and column shard."""
    moments = 0 if run.optimizer.name == "sgd" else 4 * table.rows * run.column_shards[table.name]
    return table.rows * table.dim * _ELEMENT[table.dtype] + moments


def _dense_bytes(run: RunSpec) -> int:
    """Of one rank, of DLRM's layers alone: those between two named widths."""
    model = run.workload.model
    if model.factory is not None:
        return 0
    layers = [*pairwise((model.dense_features, *model.bottom_mlp)), *pairwise(model.over_mlp)]
    return sum(4 * inputs * outputs for inputs, outputs in layers)


def _sample_bytes(run: RunSpec) -> int:
    """Of one sample: dense features and label, and for each feature its length and its ids."""
    ids = sum(len(t.features) * (4 + 8 * t.pooling_factor) for t in run.workload.tables)
    return 4 * (run.workload.model.dense_features + 1) + int(ids)


def _size(value: float) -> str:
    units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:,.1f} {units[0]}"
