from __future__ import annotations

import copy
from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError

from suite.catalog import list_workloads, load_workload
from suite.errors import ConfigError
from suite.spec import RunSpec, WorkloadSpec, validated

# The hash names a series of measurements. Where a workload is meant to change, put the hash that the
# failing test prints here: its old records will no longer be compared with its new ones.
HASHES = {
    "ctr_zipf": "4ef2fb3f788e9124",
    "dlrm_criteo_kaggle": "7bd380da17521fb3",
    "dlrm_dcnv2_criteo": "83c8bf58605ba84f",
    "dlrm_small": "d32b374e872a3feb",
    "lm_vocabulary": "ea9bc4bc4545c86b",
    "movielens_100k": "c57b84fc0fc2148c",
    "network_bound": "7ea7ac4b199a76e8",
    "planted_clicks": "8d46d9cc4b742743",
    "smoke": "8fe492026404c49f",
}


def content(**changes: Any) -> dict[str, Any]:
    """A valid workload as plain data, with values replaced by dotted path; ... removes one."""
    plain: dict[str, Any] = {
        "name": "mine",
        "model": {"dense_features": 2, "bottom_mlp": [8], "over_mlp": [4, 1]},
        "tables": [
            {"name": "user", "rows": 10, "dim": 8, "features": ["user"]},
            {"name": "item", "rows": 20, "dim": 8, "features": ["seen", "bought"], "pooling": "mean"},
        ],
        "data": {"source": "my_data:source"},
        "batch": {"global_size": 16, "per_rank": 8},
    }
    return replaced(plain, changes)


def replaced(plain: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    plain = copy.deepcopy(plain)
    for path, value in changes.items():
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        place: Any = plain
        for part in parents:
            place = place[part] if isinstance(place, list) else place.setdefault(part, {})
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return plain


@pytest.mark.parametrize("name", HASHES)
def test_hash_of_a_named_workload_is_pinned(name: str) -> None:
    assert load_workload(name).spec_hash == HASHES[name]


def test_every_named_workload_has_its_hash_pinned() -> None:
    assert [workload.name for workload in list_workloads()] == sorted(HASHES)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("description", "another"),
        ("data.location", "/somewhere"),
        ("defaults.steps", 99),
        ("defaults.optimizer.learning_rate", 0.5),
        ("name", "renamed"),
    ],
)
def test_hash_is_unaffected(path: str, value: Any) -> None:
    assert (
        validated(WorkloadSpec, content(**{path: value})).spec_hash
        == validated(WorkloadSpec, content()).spec_hash
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model.over_mlp", [5, 1]),
        ("model.cross", {"layers": 2, "low_rank": 2}),
        ("tables.0.rows", 11),
        ("tables.1.pooling", "sum"),
        ("tables.1.pooling_factor", 2.0),
        ("tables.1.features", ["bought", "seen"]),
        ("data.options", {"x": 1}),
        ("data.source", "my_data:other"),
        ("batch.global_size", 32),
    ],
)
def test_hash_is_affected(path: str, value: Any) -> None:
    assert (
        validated(WorkloadSpec, content(**{path: value})).spec_hash
        != validated(WorkloadSpec, content()).spec_hash
    )


def test_a_spec_cannot_be_changed() -> None:
    workload = validated(WorkloadSpec, content())
    with pytest.raises(ValidationError):
        workload.name = "other"


def test_a_spec_survives_json() -> None:
    workload = validated(WorkloadSpec, content())
    assert WorkloadSpec.model_validate_json(workload.model_dump_json()) == workload


def test_features_are_in_the_order_of_the_tables() -> None:
    assert validated(WorkloadSpec, content()).features == ("user", "seen", "bought")


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("name", "9lives", "name"),
        ("name", ..., "name"),
        ("descripton", "typo", "descripton"),
        ("model", ..., "model"),
        ("model.dense_features", 0, "model.dense_features"),
        ("model.bottom_mlp", [0, 8], "model.bottom_mlp.0"),
        ("model.bottom_mlp", [16], "model.bottom_mlp"),
        ("model.bottom_mlp", [], "model.bottom_mlp"),
        ("model.over_mlp", [4, 2], "model.over_mlp"),
        ("model.factory", "no colon", "model.factory"),
        ("model.cross", {"layers": 0, "low_rank": 2}, "model.cross.layers"),
        ("model.cross", {"layers": 2}, "model.cross.low_rank"),
        ("tables", [], "tables"),
        ("tables.0.name", "items", "tables.name"),
        ("tables.0.name", "item", "tables"),
        ("tables.0.name", "a.b", "tables.0.name"),
        ("tables.0.rows", 0, "tables.0.rows"),
        ("tables.0.rows", "many", "tables.0.rows"),
        ("tables.0.rows", 2**41, "tables.0.rows"),
        ("tables.0.dim", 6, "tables.0.dim"),
        ("tables.0.dim", 2048, "tables.0.dim"),
        ("tables.0.dim", 16, "tables"),
        ("tables.0.features", [], "tables.0.features"),
        ("tables.0.features", ["seen"], "tables"),
        ("tables.0.pooling", "max", "tables.0.pooling"),
        ("tables.0.pooling", "none", "tables.pooling"),
        ("tables.0.dtype", "int8", "tables.0.dtype"),
        ("tables.0.pooling_factor", 0, "tables.0.pooling_factor"),
        ("tables.0.pooling_factor", float("inf"), "tables.0.pooling_factor"),
        ("data.source", ..., "data.source"),
        ("data.source", "my_data", "data.source"),
        ("data.options", [1], "data.options"),
        ("data.options", {"x": float("inf")}, "data.options.x"),
        ("data.options", {"x": [1, float("nan")]}, "data.options.x"),
        ("data.options", {"x": date(2026, 1, 1)}, "data.options.x"),
        ("data.options", {"x": (1, 2)}, "data.options.x"),
        ("data.options", {"x": {1: 2}}, "data.options.x"),
        ("data.location", 5, "data.location"),
        ("batch.global_size", 0, "batch.global_size"),
        ("batch.per_rank", 2.5, "batch.per_rank"),
        ("batch.size", 2, "batch.size"),
        ("defaults.steps", 0, "defaults.steps"),
        ("defaults.warmup_steps", 0, "defaults.warmup_steps"),
        ("defaults.launches", 0, "defaults.launches"),
        ("defaults.sharding", "diagonal", "defaults.sharding"),
        ("defaults.optimizer.name", "adamw", "defaults.optimizer.name"),
        ("defaults.optimizer.learning_rate", 0, "defaults.optimizer.learning_rate"),
        ("defaults.optimizer.eps", 0, "defaults.optimizer.eps"),
        ("defaults.optimizer.scale", 4, "optimizer.scale"),
        ("defaults.optimizer.dense.name", "adam", "defaults.optimizer.dense.name"),
        ("defaults.optimizer.dense.learning_rate", -1, "defaults.optimizer.dense.learning_rate"),
    ],
)
def test_a_wrong_workload_field_is_named(path: str, value: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validated(WorkloadSpec, content(**{path: value}))
    assert caught.value.report.field == field
    assert caught.value.report.message
    assert caught.value.report.remedy


def test_one_dim_and_layers_are_asked_of_dlrm_alone() -> None:
    own = content(**{"model": {"dense_features": 2, "factory": "my_model:make"}, "tables.0.dim": 16})
    assert validated(WorkloadSpec, own).model.factory == "my_model:make"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("layout.world_size", 0, "layout.world_size"),
        ("layout.world_size", 8193, "layout.world_size"),
        ("layout.replica_groups", 3, "layout.replica_groups"),
        ("layout.placement", "random", "layout.placement"),
        ("layout.sharding", "diagonal", "layout.sharding"),
        ("layout.sharding_by_table", {"nobody": "row_wise"}, "layout.sharding_by_table"),
        ("layout.sharding_by_table", {"user": "diagonal"}, "layout.sharding_by_table.user"),
        ("optimizer.name", "adam", "optimizer.name"),
        ("optimizer.name", "adamw", "optimizer.name"),
        ("optimizer.initial_accumulator", -1, "optimizer.initial_accumulator"),
        ("optimizer", {"name": "sgd", "initial_accumulator": 0.1}, "optimizer.initial_accumulator"),
        ("optimizer.scale", 2.0, "optimizer.scale"),
        ("sync", "sparse", "sync"),
        ("sync_interval", 1.5, "sync_interval"),
        ("sync_optimizer_state", "never", "sync_optimizer_state"),
        ("scaling", "some", "scaling"),
        ("steps", 5, "steps"),
        ("warmup_steps", 0, "warmup_steps"),
        ("launches", 0, "launches"),
        ("seed", -1, "seed"),
        ("seed", 2**31, "seed"),
        ("device", "tpu", "device"),
        ("launcher", "magic", "launcher"),
        ("stall_timeout_s", 1, "stall_timeout_s"),
        ("world_size", 2, "world_size"),
    ],
)
def test_a_wrong_run_field_is_named(path: str, value: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validated(RunSpec, replaced({"workload": content(), "layout": {"world_size": 4}}, {path: value}))
    assert caught.value.report.field == field


CHECKPOINT = {"folder": "kept", "every": 10}
START = {"checkpoint": "kept/step", "step": 1, "samples": 16}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"pipeline": "sparse_dist", "profile_steps": 3}, "profile_steps"),
        ({"checkpoint": CHECKPOINT, "layout": {"sharding": "planned"}}, "layout.sharding"),
        ({"start": START, "layout": {"sharding": "planned"}}, "layout.sharding"),
        ({"checkpoint": CHECKPOINT, "optimizer": {"name": "adam"}, "device": "cuda"}, "optimizer.name"),
        ({"start": START, "optimizer": {"name": "adam"}, "device": "cuda"}, "optimizer.name"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validated(RunSpec, {"workload": content(), **changes})
    assert caught.value.report.field == field
    assert caught.value.report.remedy


@pytest.mark.parametrize("kind", ["table_row_wise", "grid", "data_parallel"])
def test_an_unpooled_table_is_not_sharded_in_ways_that_only_pooled_ones_have(kind: str) -> None:
    model = {"model": {"dense_features": 2, "factory": "mine:model"}, "tables.0.pooling": "none"}
    run = {"workload": content(**model), "layout": {"sharding_by_table": {"user": kind}}}
    with pytest.raises(ConfigError) as caught:
        validated(RunSpec, run)
    assert caught.value.report.field == "layout.sharding_by_table.user"


@pytest.mark.parametrize(("rows", "fits"), [(9, False), (10, True)])
def test_row_wise_needs_rows_on_every_rank(rows: int, fits: bool) -> None:
    # Four ranks: 9 rows are split 3, 3, 3, 0, and 10 are split 3, 3, 3, 1.
    run = {
        "workload": content(**{"tables.0.rows": rows}),
        "layout": {"world_size": 4, "sharding_by_table": {"user": "row_wise"}},
    }
    if fits:
        validated(RunSpec, run)
    else:
        with pytest.raises(ConfigError) as caught:
            validated(RunSpec, run)
        assert caught.value.report.field == "tables.user.rows"


def test_an_optimizer_that_the_device_lacks_is_refused_with_those_it_has() -> None:
    run = {"workload": content(), "optimizer": {"name": "lamb"}}
    with pytest.raises(ConfigError, match="no fused kernel of it on cpu") as caught:
        validated(RunSpec, run)
    for name in ("sgd", "adagrad", "rowwise_adagrad", "momentum_scaled_rowwise_adagrad"):
        assert f"'{name}'" in str(caught.value.report.remedy)
    assert "'adam'" not in str(caught.value.report.remedy)
    assert validated(RunSpec, run | {"device": "cuda"}).optimizer.name == "lamb"


@pytest.mark.parametrize(("scaling", "expected"), [("strong", 16), ("weak", 32)])
def test_global_batch(scaling: str, expected: int) -> None:
    run = validated(RunSpec, {"workload": content(), "layout": {"world_size": 4}, "scaling": scaling})
    assert run.global_batch == expected
