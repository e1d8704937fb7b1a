"""Dumped batches of any size, cut again into global batches; and what is wrong with a file, by its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from suite.data import DataSource, open_source, source_class
from suite.errors import ConfigError
from suite.samples_check import check_samples
from suite.spec import WorkloadSpec
from tests.helpers.workloads import rows_of, tiny_workload
from workloads.data.kjt_files import dump_batch

SOURCE = "workloads.data.kjt_folder:KjtFolder"
#: Batches of unlike sizes, one of them empty: 20 samples.
SIZES = (5, 0, 1, 8, 6)


def batch(first: int, size: int) -> tuple[KeyedJaggedTensor, torch.Tensor, torch.Tensor]:
    """Samples first, first + 1, ...: sample i has user i % 10 and i % 3 tags; ``extra`` is no workload's."""
    number = torch.arange(first, first + size)
    tags = number % 3
    sparse = KeyedJaggedTensor.from_lengths_sync(
        keys=["tags", "extra", "user"],
        values=torch.cat([torch.repeat_interleave(number % 5, tags), number, number % 10]),
        lengths=torch.cat([tags, torch.ones(2 * size, dtype=torch.int64)]),
    )
    dense = torch.stack([number.float(), -number.float()], dim=1)
    return sparse, dense, (number % 2).float()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    first = 0
    for step, size in enumerate(SIZES):
        dump_batch(tmp_path / f"{step:03}.npz", *batch(first, size))
        first += size
    return tmp_path


def workload(folder: Path | None, **options: Any) -> WorkloadSpec:
    spec = tiny_workload(SOURCE, **options)
    location = None if folder is None else str(folder)
    return spec.model_copy(update={"data": spec.data.model_copy(update={"location": location})})


def opened(folder: Path, **options: Any) -> DataSource:
    return open_source(workload(folder, **options), 0)


def expected(*numbers: int) -> list[tuple[Any, ...]]:
    return [
        (float(i % 2), (float(i), float(-i)), ("tags", (i % 5,) * (i % 3)), ("user", (i % 10,)))
        for i in numbers
    ]


@pytest.mark.parametrize("size", [1, 3, 7, 20, 45])
def test_the_samples_are_cut_anew_and_start_over_at_the_end(folder: Path, size: int) -> None:
    source = opened(folder)
    found = [row for start in range(0, 45, size) for row in rows_of(source.train(start, start + size))]
    assert found[:45] == expected(*(i % 20 for i in range(45)))


def test_slices_come_in_any_order_and_keep_the_contract(folder: Path) -> None:
    source, spec = opened(folder), workload(folder)
    assert rows_of(source.train(13, 17)) == expected(13, 14, 15, 16)
    assert rows_of(source.train(0, 2)) == expected(0, 1)
    check_samples(source.train(4, 25), spec, 21)
    check_samples(source.train(3, 3), spec, 0)
    check_samples(source.train(6, 6), spec, 0)


def test_the_last_samples_are_held_out(folder: Path) -> None:
    source = opened(folder, evaluation_samples=8)
    assert rows_of(source.evaluation(0, 8)) == expected(*range(12, 20))
    assert rows_of(source.evaluation(7, 8)) == expected(19)
    assert rows_of(source.train(11, 14)) == expected(11, 0, 1)
    assert source.describe()["train_samples"] == 12
    assert source.describe()["base_rate"] == 0.5


def test_the_fingerprint_is_of_the_samples_and_not_of_the_files(folder: Path, tmp_path: Path) -> None:
    as_one = tmp_path / "one"
    as_one.mkdir()
    dump_batch(as_one / "all.npz", *batch(0, 20))
    fingerprint = opened(folder).describe()["fingerprint"]
    assert opened(as_one).describe()["fingerprint"] == fingerprint
    dump_batch(as_one / "all.npz", *batch(1, 20))
    assert opened(as_one).describe()["fingerprint"] != fingerprint


def test_more_files_than_are_kept_in_memory(tmp_path: Path) -> None:
    for number in range(12):
        dump_batch(tmp_path / f"{number:02}.npz", *batch(number, 1))
    source = opened(tmp_path)
    assert rows_of(source.train(0, 24)) == expected(*range(12), *range(12))


def test_other_dtypes_and_offsets_give_the_same_samples(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in folder.glob("*.npz"):
        arrays = dict(np.load(path))
        offsets = np.concatenate([[0], np.cumsum(arrays.pop("lengths"))])
        arrays |= {
            "offsets": offsets.astype(np.int32),
            "values": arrays["values"].astype(np.int32),
            "dense": arrays["dense"].astype(np.float64),
            "labels": arrays["labels"].astype(bool).reshape(-1, 1),
        }
        np.savez(other / path.name, **arrays)
    assert rows_of(opened(other).train(0, 20)) == rows_of(opened(folder).train(0, 20))


WRONG = [
    # array, what it becomes (None: it goes), a word of the message
    ("keys", None, "the array keys is missing"),
    ("values", None, "the array values is missing"),
    ("lengths", None, "the array lengths is missing"),
    ("dense", None, "the array dense is missing"),
    ("labels", None, "the array labels is missing"),
    ("weights", np.ones(4), "weights"),
    ("keys", np.array(["tags", "user", "user"]), "'user' more than once"),
    ("keys", np.array(["tags", "extra", "users"]), "no feature 'user'"),
    ("keys", np.array([1, 2, 3]), "keys is int64"),
    ("keys", np.array(["tags", "user"]), "2 features of 3 samples need 6"),
    ("values", np.array([1.0, 1, 1, 2, 3, 4, 5]), "values is float64"),
    ("values", np.arange(6), "lengths add up to 9"),
    ("values", np.arange(9).reshape(3, 3), "values is int64 of shape [3, 3]"),
    ("lengths", np.ones(8, np.int64), "lengths has shape [8]"),
    ("lengths", np.array([1, 2, -1, 1, 1, 1, 1, 1, 1]), "a bag has -1 ids"),
    ("lengths", np.ones(9), "lengths is float64"),
    ("offsets", np.arange(10), "lengths and offsets do not agree"),
    ("offsets", np.arange(9), "offsets has shape [9]"),
    ("offsets", np.arange(1, 11), "starts at [1]"),
    ("offsets", np.array([0, 2, 1, 3, 4, 5, 6, 7, 8, 9]), "a bag has -1 ids"),
    ("dense", np.zeros((3, 3), np.float32), "dense is float32 of shape [3, 3]; floats of [3, 2] fit"),
    ("dense", np.zeros((2, 2), np.float32), "dense is float32 of shape [2, 2]"),
    ("dense", np.zeros((3, 2), np.int64), "dense is int64"),
    ("dense", np.full((3, 2), np.nan, np.float32), "not finite"),
    ("dense", np.full((3, 2), 1e300), "not finite in float32"),
    ("labels", np.array([0, 1, 2]), "labels hold 2"),
    ("labels", np.array([0, 1, np.nan]), "labels hold nan"),
    ("labels", np.array(["0", "1", "0"]), "labels is <U1"),
    ("labels", np.zeros((3, 2)), "labels is float64 of shape [3, 2]"),
]


@pytest.mark.parametrize(("array", "value", "words"), WRONG, ids=[f"{a}-{w}" for a, _, w in WRONG])
def test_a_wrong_array_is_refused_with_its_file(folder: Path, array: str, value: Any, words: str) -> None:
    """In the fourth of five files, whose three samples hold 3, 3 and 3 ids."""
    path = folder / "003.npz"
    dump_batch(path, *batch(3, 3))
    arrays = dict(np.load(path)) | {array: value}
    np.savez(path, **{name: content for name, content in arrays.items() if content is not None})
    refused(folder, path, words)


@pytest.mark.parametrize(
    ("bad", "dtype"),
    [(-1, np.int32), (-1, np.int64), (5, np.int32), (5, np.int64), (5, np.uint8), (2**40, np.int64)],
)
def test_an_id_outside_its_table_is_named_by_file_feature_and_sample(
    folder: Path, bad: int, dtype: type
) -> None:
    path = folder / "003.npz"
    arrays = dict(np.load(path))
    # Sample 7 has one tag, sample 8 two: the third tag of the file is sample 8's second.
    arrays["values"] = arrays["values"].astype(dtype)
    arrays["values"][2] = bad
    np.savez(path, **arrays)
    refused(folder, path, f"feature 'tags' has id {bad} in sample 2")


def test_a_feature_that_no_table_names_may_hold_any_id(folder: Path) -> None:
    path = folder / "003.npz"
    arrays = dict(np.load(path))
    arrays["values"][arrays["lengths"][:8].sum()] = -7
    np.savez(path, **arrays)
    assert rows_of(opened(folder).train(6, 14)) == expected(*range(6, 14))


@pytest.mark.parametrize("kept", [0, 10, 100, -30, -1])
def test_a_file_cut_short_is_refused(folder: Path, kept: int) -> None:
    path = folder / "003.npz"
    content = path.read_bytes()
    path.write_bytes(content[:kept])
    refused(folder, path, "no .npz of plain arrays")


def test_a_flipped_bit_is_found(folder: Path) -> None:
    path = folder / "003.npz"
    content = bytearray(path.read_bytes())
    content[content.index(b"values.npy") + 200] ^= 1
    path.write_bytes(content)
    refused(folder, path, "no .npz of plain arrays")


class Trap:
    """What a pickle can do."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("/nonexistent/trap-was-sprung",)


def test_a_pickle_inside_is_never_loaded(folder: Path) -> None:
    path = folder / "003.npz"
    np.savez(path, **(dict(np.load(path)) | {"values": np.array([Trap()], dtype=object)}))
    refused(folder, path, "Object arrays cannot be loaded")


def test_an_array_without_names_is_refused(folder: Path) -> None:
    path = folder / "003.npz"
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    refused(folder, path, "no names")


def refused(folder: Path, path: Path, words: str) -> None:
    spec = workload(folder)
    with pytest.raises(ConfigError) as caught:
        source_class(spec).check(spec)
    report = caught.value.report
    assert (report.field, report.value, report.kind) == ("data.location", str(path), "bad_data")
    assert words in report.message
    assert report.remedy


@pytest.mark.parametrize(
    ("names", "words"), [((), "no .npz file"), (("a.pt",), "a.pt is a pickle"), (("a.txt",), "no .npz file")]
)
def test_a_folder_without_batches_is_refused(tmp_path: Path, names: tuple[str, ...], words: str) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ConfigError, match=words) as caught:
        opened(tmp_path)
    assert caught.value.report.value == str(tmp_path)


def test_other_files_beside_the_batches_do_not_matter(folder: Path) -> None:
    (folder / "notes.txt").write_text("dumped in May")
    (folder / ".half.npz.part").write_bytes(b"PK")
    assert rows_of(opened(folder).train(0, 3)) == expected(0, 1, 2)


@pytest.mark.parametrize(
    ("folder_name", "field"),
    [(None, "data.location"), ("absent", "data.location"), ("file", "data.location")],
)
def test_a_folder_that_is_none_is_refused(tmp_path: Path, folder_name: str | None, field: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError) as caught:
        open_source(workload(None if folder_name is None else tmp_path / folder_name), 0)
    assert caught.value.report.field == "data.location"


@pytest.mark.parametrize("value", [-1, 20, 21, "all"])
def test_a_wrong_number_of_held_out_samples_is_refused(folder: Path, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        opened(folder, evaluation_samples=value)
    assert caught.value.report.field == "data.options.evaluation_samples"


def test_only_empty_batches_are_refused(tmp_path: Path) -> None:
    dump_batch(tmp_path / "0.npz", *batch(0, 0))
    with pytest.raises(ConfigError, match="has 0 samples"):
        opened(tmp_path)


def test_what_cannot_be_dumped_is_said_when_it_is_dumped(tmp_path: Path) -> None:
    sparse, dense, labels = batch(0, 2)
    weighted = KeyedJaggedTensor(
        sparse.keys(), sparse.values(), torch.ones(len(sparse.values())), lengths=sparse.lengths()
    )
    varying = KeyedJaggedTensor(
        ["a", "b"],
        torch.arange(3),
        lengths=torch.ones(3, dtype=torch.int64),
        stride_per_key_per_rank=[[1], [2]],
    )
    for wrong in (weighted, varying):
        with pytest.raises(ValueError, match="cannot be dumped"):
            dump_batch(tmp_path / "0.npz", wrong, dense, labels)
    with pytest.raises(ValueError, match="does not end in"):
        dump_batch(tmp_path / "0.pt", sparse, dense, labels)
    assert list(tmp_path.iterdir()) == []
