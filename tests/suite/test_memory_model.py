"""The model of memory, against sizes worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from suite.catalog import load_workload
from suite.memory_categories import PASSING
from suite.memory_model import modelled
from suite.record import TableSharding
from suite.spec import RunSpec

#: ``smoke``: 2,000 rows x 16 in four tables of 1,000, 800, 120 and 80 rows; 4 dense features; DLRM with
#: layers 4-16 and 26-16-1.
NAMES = ("user", "item", "words", "city")
DENSE = (4 * 16 + 16) + (26 * 16 + 16) + (16 + 1)


def run_of(**changes: Any) -> RunSpec:
    spec = load_workload("smoke")
    content = {"workload": spec, "optimizer": spec.defaults.optimizer} | changes
    return RunSpec.model_validate(content)


def sharded(kind: str, ranks: dict[str, tuple[int, ...]], column_shards: int = 1) -> list[TableSharding]:
    return [
        TableSharding(table=name, sharding=kind, ranks=ranks[name], column_shards=column_shards)
        for name in NAMES
    ]


TABLE_WISE = sharded("table_wise", {"user": (0,), "item": (1,), "words": (1,), "city": (1,)})


@pytest.mark.parametrize(
    ("sharding", "rows", "columns", "moments"),
    [
        (TABLE_WISE, 1000, 16, 1000),
        (sharded("row_wise", dict.fromkeys(NAMES, (0, 1))), 500 + 400 + 60 + 40, 16, 1000),
        # A moment a row and column shard.
        (sharded("column_wise", dict.fromkeys(NAMES, (0, 1)), 2), 2000, 8, 2000),
        # Two column shards of two row shards each; rank 0 has one of the four.
        (sharded("grid", dict.fromkeys(NAMES, (0, 1, 2, 3)), 2), 1000, 8, 1000),
        (sharded("data_parallel", dict.fromkeys(NAMES, (0, 1))), 2000, 16, 2000),
    ],
)
def test_what_lasts_of_every_sharding_type(sharding, rows, columns, moments) -> None:
    found = modelled(run_of(layout={"world_size": 4}), sharding, 0).at_peak
    assert found["embedding_weights"] == 4 * rows * columns
    assert found["embedding_optimizer_state"] == 4 * moments


def test_the_last_row_shard_has_what_is_left() -> None:
    three = sharded("row_wise", dict.fromkeys(NAMES, (0, 1, 2)))
    run = run_of(layout={"world_size": 3})
    held = [modelled(run, three, rank).at_peak["embedding_weights"] for rank in range(3)]
    assert held == [4 * 16 * (334 + 267 + 40 + 27)] * 2 + [4 * 16 * (332 + 266 + 40 + 26)]


@pytest.mark.parametrize(
    ("optimizer", "per_row", "per_element"),
    [("sgd", 0, 0), ("rowwise_adagrad", 1, 0), ("adagrad", 0, 1)],
)
def test_optimizer_state_of_every_kind(optimizer, per_row, per_element) -> None:
    run = run_of(optimizer={"name": optimizer}, layout={"world_size": 2})
    state = modelled(run, TABLE_WISE, 0).at_peak["embedding_optimizer_state"]
    assert state == 4 * (1000 * per_row + 16_000 * per_element)


def test_delayed_moments_wait_in_a_second_copy() -> None:
    delayed = {"sync_optimizer_state": "delayed", "layout": {"world_size": 4, "replica_groups": 2}}
    assert modelled(run_of(**delayed), TABLE_WISE, 0).at_peak["embedding_optimizer_state"] == 2 * 4 * 1000


@pytest.mark.parametrize(("placement", "ranks"), [("interleaved", [0, 1]), ("contiguous", [0, 2])])
def test_placement_decides_which_ranks_have_a_shard(placement, ranks) -> None:
    run = run_of(layout={"world_size": 4, "replica_groups": 2, "placement": placement})
    first = sharded("table_wise", dict.fromkeys(NAMES, (0,)))
    held = [modelled(run, first, rank).at_peak["embedding_weights"] for rank in range(4)]
    assert [rank for rank in range(4) if held[rank]] == ranks


def test_dense_layers() -> None:
    found = modelled(run_of(), sharded("table_wise", dict.fromkeys(NAMES, (0,))), 0).at_peak
    assert found["dense_parameters"] == 4 * DENSE
    # A sum an element and a step count for each of six tensors.
    assert found["dense_optimizer_state"] == 4 * (DENSE + 6)


def test_one_rank_peaks_in_the_backward_pass() -> None:
    """256 samples of five vectors of 16: their gradient twice, in the product's backward."""
    found = modelled(run_of(), sharded("table_wise", dict.fromkeys(NAMES, (0,))), 0)
    vectors = 4 * 256 * 5 * 16
    bags = 4 * 256
    assert found.peak_component == "dense_backward"
    assert found.at_peak["gradients"] == 4 * DENSE + 2 * vectors + 4 * 256 * (26 + 25)
    assert found.at_peak["activations"] == 4 * 256 * 16 + vectors + (8 + 4) * (bags + 1) + 4 * 256
    assert found.at_peak["communication_buffers"] == 0
    assert found.at_peak["other"] == 4 * 256 * 5


def test_a_sync_of_tables_that_are_large_for_the_batch_is_the_peak() -> None:
    spec = load_workload("smoke")
    larger = [t.model_copy(update={"rows": 100 * t.rows}) for t in spec.tables]
    workload = spec.model_copy(update={"tables": tuple(larger)})
    layout = {"world_size": 2, "replica_groups": 2}
    found = modelled(
        RunSpec.model_validate({"workload": workload, "layout": layout}),
        sharded("table_wise", dict.fromkeys(NAMES, (0,))),
        1,
    )
    assert found.peak_component == "replica_sync"
    assert found.at_peak["communication_buffers"] == 4 * 200_000 * 16 + 4 * 200_000


@pytest.mark.parametrize(
    ("changes", "sharding", "reason"),
    [
        ({"workload": load_workload("ctr_zipf")}, None, "the model is not TorchRec's DLRM"),
        ({"workload": load_workload("dlrm_dcnv2_criteo")}, None, "the model is not TorchRec's DLRM"),
        ({"device": "cuda"}, TABLE_WISE, "on GPUs it was never checked"),
        ({"exchange_dtype": "fp16"}, TABLE_WISE, "vectors travel in fp16"),
        ({}, sharded("data_parallel", dict.fromkeys(NAMES, (0, 1))), "tables are sharded data_parallel"),
        ({}, [], "the record does not say how tables are sharded"),
    ],
)
def test_what_is_not_modelled_says_why(changes, sharding, reason) -> None:
    run = run_of(**changes)
    if sharding is None:
        names = [t.name for t in run.workload.tables]
        sharding = [TableSharding(table=n, sharding="table_wise", ranks=(0,), column_shards=1) for n in names]
    found = modelled(run, sharding, 0)
    assert found.reason == reason
    assert [found.at_peak[category] for category in PASSING] == [None] * 4
    assert (found.at_peak["embedding_weights"] is None) == (sharding == [])
