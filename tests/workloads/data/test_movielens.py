from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.catalog import load_workload
from suite.data import DataSource, Samples, open_source, source_class
from suite.errors import ConfigError
from suite.samples_check import check_samples
from suite.spec import TableSpec, WorkloadSpec
from tests.helpers.movielens import write_grouplens
from tests.helpers.workloads import rows_of

N = 80_000


@pytest.fixture(scope="module")
def workload() -> WorkloadSpec:
    return load_workload("movielens_100k")


@pytest.fixture(scope="module")
def source(workload: WorkloadSpec) -> DataSource:
    return open_source(workload, 0)


def changed(workload: WorkloadSpec, **options: Any) -> WorkloadSpec:
    data = workload.data.model_copy(update={"options": {**workload.data.options, **options}})
    return workload.model_copy(update={"data": data})


def ratings_of(samples: Samples) -> list[int]:
    """Which rating each sample is: a user rates a film once."""
    return (samples.sparse["user_id"][0] * 10_000 + samples.sparse["item_id"][0]).tolist()


def test_numbers(source: DataSource) -> None:
    facts = source.describe()
    assert (facts["train_samples"], facts["evaluation_samples"]) == (80_000, 20_000)
    assert source.evaluation_size == 20_000
    labels = np.concatenate([source.train(0, N).labels, source.evaluation(0, 20_000).labels])
    assert labels.sum() == 34_174 + 21_201  # ratings of 4 and 5
    assert facts["base_rate"] == pytest.approx(source.evaluation(0, 20_000).labels.mean(dtype=np.float64))


def test_the_split_is_disjoint_and_complete(source: DataSource) -> None:
    train, evaluation = ratings_of(source.train(0, N)), ratings_of(source.evaluation(0, 20_000))
    assert len(set(train)) == N
    assert len(set(train) | set(evaluation)) == 100_000


def test_samples_keep_the_contract(source: DataSource, workload: WorkloadSpec) -> None:
    check_samples(source.train(N - 500, N + 500), workload, 1_000)
    check_samples(source.train(7, 7), workload, 0)
    check_samples(source.evaluation(0, 20_000), workload, 20_000)


def test_slices_are_the_stream_in_any_order_and_over_epochs(source: DataSource) -> None:
    first, last = N - 50, N + 50
    whole = rows_of(source.train(first, last))
    slices = {start: rows_of(source.train(start, start + 25)) for start in (N + 25, N - 50, N, N - 25)}
    assert [row for start in sorted(slices) for row in slices[start]] == whole


def test_an_epoch_has_every_sample_once_in_an_order_of_its_own(source: DataSource) -> None:
    first, second = ratings_of(source.train(0, N)), ratings_of(source.train(N, 2 * N))
    assert sorted(first) == sorted(second)
    assert first != second


def test_the_run_seed_decides_the_order_alone(source: DataSource, workload: WorkloadSpec) -> None:
    other = open_source(workload, 1)
    assert ratings_of(other.train(0, N)) != ratings_of(source.train(0, N))
    assert sorted(ratings_of(other.train(0, N))) == sorted(ratings_of(source.train(0, N)))
    assert ratings_of(other.evaluation(0, 20_000)) == ratings_of(source.evaluation(0, 20_000))


def test_the_split_seed_decides_the_split(source: DataSource, workload: WorkloadSpec) -> None:
    other = open_source(changed(workload, split_seed=1), 0)
    shared = set(ratings_of(other.evaluation(0, 20_000))) & set(ratings_of(source.evaluation(0, 20_000)))
    # Hypergeometric: mean 4,000, standard deviation 51; five of them.
    assert abs(len(shared) - 4_000) < 255


def test_the_threshold_decides_the_label(workload: WorkloadSpec) -> None:
    other = open_source(changed(workload, threshold=5), 0)
    assert other.train(0, N).labels.sum() + other.evaluation(0, 20_000).labels.sum() == 21_201


def sample_of(source: DataSource, user: int, film: int) -> tuple[Any, ...]:
    """The sample of the rating that a user gave a film, numbered as in the files."""
    for slice_of, size in ((source.train, N), (source.evaluation, 20_000)):
        ratings = ratings_of(slice_of(0, size))
        if (rating := (user - 1) * 10_000 + film - 1) in ratings:
            position = ratings.index(rating)
            return rows_of(slice_of(position, position + 1))[0]
    raise AssertionError("no such rating")


def test_features_of_one_rating(source: DataSource) -> None:
    # User 196, 49, M, writer, zip 55105, gave film 242, Kolya (1996), Comedy, a 3 at 1997-12-04 15:55:49 UTC.
    label, dense, *features = sample_of(source, 196, 242)
    assert label == 0
    assert dict(features) == {
        "user_id": (195,),
        "item_id": (241,),
        "age": (4,),  # 45 to 49
        "gender": (1,),
        "occupation": (20,),
        "zip_region": (55,),
        "release_year": (77,),  # 1996 - 1919
        "genres": (5,),
    }
    days = 76 + (15 * 3600 + 55 * 60 + 49) / 86_400  # of the 216 from 1997-09-19 to the end of 1998-04-22
    assert dense == pytest.approx((49 / 35 - 1, (1997 - 1996) / 35 - 1, 2 * days / 216 - 1), abs=1e-6)


def test_several_genres_and_a_canadian_zip_code(source: DataSource) -> None:
    # User 74 lives at T8H1N; film 121 is Independence Day: Action, Sci-Fi, War.
    features = dict(sample_of(source, 74, 121)[2:])
    assert features["zip_region"] == (100,)
    assert features["genres"] == (1, 15, 17)


def test_a_film_without_a_year(source: DataSource) -> None:
    _, dense, *features = sample_of(source, 130, 267)
    assert dict(features)["release_year"] == (0,)
    assert dict(features)["genres"] == (0,)
    assert dense[1] == -1  # as if it were new


def test_the_stream_is_pinned(source: DataSource) -> None:
    # A change here makes new records incomparable with old ones, and needs a reason.
    digest = hashlib.sha256(repr(ratings_of(source.train(N - 500, N + 500))).encode()).hexdigest()
    assert digest == "ac01862ebd78a84e31d32c46f9642e541560ba72a4e54bf08b2c1134cd01600b"


def test_both_layouts_give_the_same_samples(
    source: DataSource, workload: WorkloadSpec, tmp_path: Path
) -> None:
    write_grouplens(tmp_path)
    own = load_workload("movielens_100k", location=str(tmp_path))
    source_class(own).check(own)
    other = open_source(own, 0)
    assert other.describe()["fingerprint"] == source.describe()["fingerprint"]
    assert rows_of(other.train(0, 1_000)) == rows_of(source.train(0, 1_000))
    assert rows_of(other.evaluation(0, 1_000)) == rows_of(source.evaluation(0, 1_000))


def test_a_workload_may_use_some_features_in_larger_tables(workload: WorkloadSpec) -> None:
    tables = tuple(
        TableSpec(name=feature, rows=rows, dim=16, features=(feature,))
        for feature, rows in (("genres", 19), ("user_id", 5_000))
    )
    some = workload.model_copy(update={"tables": tables})
    source_class(some).check(some)
    check_samples(open_source(some, 0).train(0, 100), some, 100)


@pytest.mark.parametrize(
    ("update", "field"),
    [
        ({"features": ("director",)}, "tables.item_id.features"),
        ({"rows": 1_681}, "tables.item_id.rows"),
    ],
)
def test_a_table_that_does_not_fit_is_named(
    workload: WorkloadSpec, update: dict[str, Any], field: str
) -> None:
    tables = tuple(t.model_copy(update=update) if t.name == "item_id" else t for t in workload.tables)
    refused(workload.model_copy(update={"tables": tables}), field)


@pytest.mark.parametrize(
    ("name", "value"),
    [("threshold", 1), ("threshold", 6), ("split_seed", -1), ("split_seed", "x"), ("split", 1)],
)
def test_a_wrong_option_is_named(workload: WorkloadSpec, name: str, value: Any) -> None:
    refused(changed(workload, **{name: value}), f"data.options.{name}")


def test_a_wrong_number_of_dense_features_is_named(workload: WorkloadSpec) -> None:
    model = workload.model.model_copy(update={"dense_features": 4})
    refused(workload.model_copy(update={"model": model}), "model.dense_features")


def test_a_location_without_the_files_is_refused(tmp_path: Path) -> None:
    refused(load_workload("movielens_100k", location=str(tmp_path)), "data.location")


def refused(workload: WorkloadSpec, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        source_class(workload).check(workload)
    assert caught.value.report.field == field
