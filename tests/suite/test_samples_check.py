from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from suite.data import Samples
from suite.errors import ConfigError
from suite.samples_check import check_samples
from suite.spec import TableSpec
from tests.helpers.workloads import tiny_workload

WORKLOAD = tiny_workload("my_data:source")


ids, lengths = np.array([0, 4, 2]), np.array([2, 0, 1], np.int32)


def samples() -> Samples:
    """Three samples; tags holds 2, 0 and 1 ids."""
    return Samples(
        dense=np.zeros((3, 2), np.float32),
        labels=np.array([0, 1, 1], np.float32),
        sparse={
            "user": (np.array([0, 9, 4]), np.ones(3, np.int32)),
            "tags": (np.array([0, 4, 2]), np.array([2, 0, 1], np.int32)),
        },
    )


def with_tags(ids: Any, lengths: Any) -> Samples:
    good = samples()
    return replace(good, sparse={**good.sparse, "tags": (ids, lengths)})


def test_right_samples_pass() -> None:
    check_samples(samples(), WORKLOAD, 3)


def test_no_samples_pass() -> None:
    none = np.empty(0, np.int64), np.empty(0, np.int32)
    empty = Samples(np.empty((0, 2), np.float32), np.empty(0, np.float32), {"user": none, "tags": none})
    check_samples(empty, WORKLOAD, 0)


def test_the_second_feature_of_a_table_is_named_too() -> None:
    tables = (TableSpec(name="t", rows=5, dim=4, features=("first", "second")),)
    one = np.ones(3, np.int32)
    wrong = replace(samples(), sparse={"first": (ids, one), "second": (np.array([0, 5, 1]), one)})
    with pytest.raises(ConfigError) as caught:
        check_samples(wrong, tiny_workload("my_data:source", tables), 3)
    assert caught.value.report.field == "tables.t.rows"
    assert "id 5 for feature 'second'" in caught.value.report.message


def test_features_that_no_table_names_are_ignored() -> None:
    good = samples()
    check_samples(replace(good, sparse={**good.sparse, "extra": good.sparse["user"]}), WORKLOAD, 3)


@pytest.mark.parametrize(
    ("wrong", "field", "text"),
    [
        (None, "data.source", "NoneType, not Samples"),
        (
            replace(samples(), dense=np.zeros((3, 1), np.float32)),
            "data.source",
            "dense has shape [3, 1]; [3, 2]",
        ),
        (replace(samples(), dense=np.zeros((3, 2))), "data.source", "dense has dtype float64"),
        (replace(samples(), dense=np.full((3, 2), np.nan, np.float32)), "data.source", "dense holds values"),
        (replace(samples(), labels=[0, 1, 1]), "data.source", "labels is a list"),
        (replace(samples(), labels=np.ones(2, np.float32)), "data.source", "labels has shape [2]"),
        (replace(samples(), labels=np.array([0, 2, 1], np.float32)), "data.source", "labels hold 2.0"),
        (replace(samples(), labels=np.array([0, np.nan, 1], np.float32)), "data.source", "labels hold nan"),
        (replace(samples(), sparse={"user": samples().sparse["user"]}), "data.source", "no feature 'tags'"),
        (with_tags(ids, lengths.astype(np.int64)), "data.source", "lengths of tags has dtype int64"),
        (with_tags(ids, lengths[:2]), "data.source", "lengths of tags has shape [2]"),
        (with_tags(ids, np.array([3, -1, 1], np.int32)), "data.source", "lengths of tags hold -1"),
        (with_tags(ids.astype(np.int32), lengths), "data.source", "ids of tags has dtype int32"),
        (with_tags(ids[:2], lengths), "data.source", "ids of tags has shape [2]; [3]"),
        (with_tags(np.array([0, 5, 2]), lengths), "tables.tags.rows", "id 5 for feature 'tags'"),
        (with_tags(np.array([0, -1, 2]), lengths), "tables.tags.rows", "id -1 for feature 'tags'"),
        (with_tags(np.array([0, 2, 2**40]), lengths), "tables.tags.rows", f"id {2**40} for feature 'tags'"),
        (with_tags(np.array([0, 2, -(2**63)]), lengths), "tables.tags.rows", "id -9223372036854775808"),
        (
            with_tags(np.array([0, 2, 2**63], np.uint64), lengths),
            "data.source",
            "ids of tags has dtype uint64",
        ),
        # What numpy makes of no ids at all: it would travel as float64.
        (with_tags(np.array([]), np.zeros(3, np.int32)), "data.source", "ids of tags has dtype float64"),
        (with_tags(ids.reshape(3, 1), lengths), "data.source", "ids of tags has shape [3, 1]"),
        (with_tags(None, lengths), "data.source", "ids of tags is a NoneType"),
        (replace(samples(), sparse=[ids]), "data.source", "sparse is a list"),
        (replace(samples(), sparse={**samples().sparse, "tags": ids}), "data.source", "'tags' is a ndarray"),
        (
            replace(samples(), sparse={**samples().sparse, "tags": (ids, lengths, ids)}),
            "data.source",
            "'tags' is a tuple",
        ),
    ],
)
def test_wrong_samples_are_refused_by_name(wrong: Any, field: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_samples(wrong, WORKLOAD, 3)
    assert caught.value.report.field == field
    assert caught.value.report.kind == "bad_data"
    assert text in caught.value.report.message
