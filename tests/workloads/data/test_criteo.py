from __future__ import annotations

import hashlib
import logging
import math
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.catalog import load_workload
from suite.data import DataSource, open_source
from suite.errors import ConfigError
from suite.spec import WorkloadSpec
from tests.helpers.criteo import Line, read_criteo, write_criteo
from workloads.data import text_copy
from workloads.data.criteo import KAGGLE_LINES, TERABYTE_LINES, Criteo
from workloads.data.text_copy import CACHE_VARIABLE

LINES = 703  # seven days of 100 and three lines more
KAGGLE = "dlrm_criteo_kaggle,data=criteo_kaggle,lines=any"
MOST_MIB = 500


@pytest.fixture(autouse=True)
def no_cache_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    logging.getLogger("workloads").setLevel(logging.ERROR)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_criteo(tmp_path / "train.txt", LINES)
    return tmp_path


def kaggle(folder: Path, **options: object) -> WorkloadSpec:
    workload = load_workload(KAGGLE, str(folder))
    data = workload.data.model_copy(update={"options": {"lines": "any", **options}})
    return workload.model_copy(update={"data": data})


def opened(folder: Path, seed: int = 0, **options: object) -> DataSource:
    return open_source(kaggle(folder, **options), seed)


def ids(source: DataSource, feature: str, start: int, stop: int) -> list[int]:
    return source.train(start, stop).sparse[feature][0].tolist()


def test_the_published_lines_add_up_to_what_is_known_of_them() -> None:
    # MLPerf: 4,195,197,692 samples train, and half of 178,274,637 evaluates.
    assert len(TERABYTE_LINES) == 24
    assert sum(TERABYTE_LINES[:-1]) == 4_195_197_692
    assert sum(TERABYTE_LINES) == 4_373_472_329
    assert KAGGLE_LINES // 7 == 6_548_659


def test_samples_in_the_files_order(folder: Path) -> None:
    lines = read_criteo(folder / "train.txt")
    workload = kaggle(folder, shuffle_window=1)
    source = open_source(workload, 0)
    found = source.train(0, 50)
    assert found.labels.tolist() == [line.label for line in lines[:50]]
    dense = [[math.log1p(max(x, 0)) for x in line.numbers] for line in lines[:50]]
    np.testing.assert_allclose(found.dense, dense, rtol=1e-6)  # float32
    for number, table in enumerate(workload.tables):
        expected = [line.categories[number] % table.rows for line in lines[:50]]
        assert found.sparse[f"cat_{number}"][0].tolist() == expected
        assert found.sparse[f"cat_{number}"][1].tolist() == [1] * 50


@pytest.mark.parametrize(
    ("half", "start", "stop"), [("first", 603, 653), ("second", 653, 703)]
)  # the first three of the seven days have one line more
def test_the_last_of_seven_days_evaluates_by_halves(folder: Path, half: str, start: int, stop: int) -> None:
    labels = [line.label for line in read_criteo(folder / "train.txt")]
    source = opened(folder, evaluation_half=half)
    assert source.evaluation_size == stop - start
    assert source.evaluation(0, 1000).labels.tolist() == labels[start:stop]
    described = source.describe()
    assert described["train_samples"] == 603
    assert described["split"] == f"{half} half of the last day"
    assert described["base_rate"] == pytest.approx(sum(labels[start:stop]) / (stop - start))


def test_an_epoch_is_every_training_sample_once_in_an_order_of_the_seed(folder: Path) -> None:
    def order(seed: int, epoch: int) -> list[tuple[int, ...]]:
        samples = opened(folder, seed, shuffle_window=100).train(603 * epoch, 603 * (epoch + 1))
        return [
            tuple(row) for row in np.stack([samples.sparse[f"cat_{n}"][0] for n in range(26)], 1).tolist()
        ]

    rows = [
        tuple(value % table.rows for value, table in zip(line.categories, kaggle(folder).tables, strict=True))
        for line in read_criteo(folder / "train.txt")[:603]
    ]
    first = order(0, 0)
    for found in (first, order(1, 0), order(0, 1)):
        for start in range(0, 603, 100):  # windows stay in the order of time
            assert Counter(found[start : start + 100]) == Counter(rows[start : start + 100])
    assert first == order(0, 0)
    assert first != order(1, 0)
    assert first != order(0, 1)
    assert first != rows


def test_any_slice_is_the_same_as_a_part_of_a_longer_one(folder: Path) -> None:
    source = opened(folder, shuffle_window=64)
    whole = ids(source, "cat_2", 500, 800)  # over an epoch's end
    assert ids(source, "cat_2", 500, 550) + ids(source, "cat_2", 550, 800) == whole


def expected_with_threshold(lines: list[Line], counted: int, number: int, rows: int, least: int) -> list[int]:
    places = Counter(
        line.categories[number] % (rows - 2) for line in lines[:counted] if line.categories[number]
    )
    found = []
    for line in lines:
        value = line.categories[number]
        place = value % (rows - 2)
        found.append(0 if value == 0 else 2 + place if places[place] >= least else 1)
    return found


def test_rare_and_missing_values_have_rows_of_their_own(folder: Path) -> None:
    lines = read_criteo(folder / "train.txt")
    workload = kaggle(folder, shuffle_window=1, frequency_threshold=4)
    source = open_source(workload, 0)
    train, evaluation = source.train(0, 603), source.evaluation(0, 50)
    for number, table in enumerate(workload.tables):
        expected = expected_with_threshold(lines, 603, number, table.rows, 4)
        assert train.sparse[f"cat_{number}"][0].tolist() == expected[:603]
        assert evaluation.sparse[f"cat_{number}"][0].tolist() == expected[603:653]
    rare = train.sparse["cat_2"][0] == 1
    assert 0.1 < rare.mean() < 0.9


def test_counts_belong_to_their_settings(folder: Path) -> None:
    cache = folder / "sparse2d_cache"
    first = ids(opened(folder, shuffle_window=1, frequency_threshold=4), "cat_2", 0, 100)
    (one,) = cache.glob("kept-*.npz")
    assert ids(opened(folder, shuffle_window=1, frequency_threshold=8), "cat_2", 0, 100) != first
    (two,) = set(cache.glob("kept-*.npz")) - {one}
    two.replace(one)  # the counts of other settings under this name
    with pytest.raises(ConfigError) as caught:
        opened(folder, frequency_threshold=4)
    assert one.name in str(caught.value.report.message)
    assert "other data or settings" in str(caught.value.report.message)
    one.write_bytes(b"no zip")
    with pytest.raises(ConfigError, match=one.name):
        opened(folder, frequency_threshold=4)


def test_a_second_process_waits_for_the_counts_of_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(folder)  # so that only the counts are left to be made
    counting, waiting = threading.Event(), threading.Event()
    count, made = Criteo._count, []

    def slow(source: Criteo) -> Any:
        counting.set()
        assert waiting.wait(30)
        made.append(source)
        return count(source)

    monkeypatch.setattr(Criteo, "_count", slow)
    monkeypatch.setattr(text_copy._log, "warning", lambda *_: waiting.set())
    with ThreadPoolExecutor(2) as processes:
        first = processes.submit(opened, folder, frequency_threshold=4)
        assert counting.wait(30)
        second = processes.submit(opened, folder, frequency_threshold=4)
        found = [ids(process.result(30), "cat_2", 0, 100) for process in (first, second)]
    assert found[0] == found[1]
    assert len(made) == 1


def test_half_written_counts_go(folder: Path) -> None:
    opened(folder, frequency_threshold=4)
    cache = folder / "sparse2d_cache"
    (counts,) = cache.glob("kept-*.npz")
    part = cache / f".{counts.name}.part"
    counts.rename(part)  # as a killed process leaves it
    opened(folder, frequency_threshold=4)
    assert counts.exists()
    assert not part.exists()
    counts.unlink()
    part.symlink_to("/dev/full")
    message = refused(kaggle(folder, frequency_threshold=4))[1]
    assert "cannot be written there: No space left on device" in message
    assert not part.is_symlink()


def test_a_checksum_that_is_known_is_held_against_the_file(folder: Path) -> None:
    right = hashlib.sha256((folder / "train.txt").read_bytes()).hexdigest()
    wrong = "0" * 64
    for _ in range(2):  # the second finds no copy either: that of another file is not kept
        field, message = refused(kaggle(folder, sha256={"train.txt": wrong}))
        assert (field, message) == (
            "data.location",
            f"train.txt: its SHA-256 is {right}, and data.options.sha256 says {wrong}.",
        )
        assert not list(folder.glob("sparse2d_cache/*.json"))
    opened(folder, sha256={"train.txt": right.upper()})
    assert (
        "data.options.sha256 says" in refused(kaggle(folder, sha256={"train.txt": wrong}))[1]
    )  # by its copy


def test_a_checksum_of_what_is_not_read_is_refused(folder: Path) -> None:
    field, message = refused(kaggle(folder, sha256={"train.txt.gz": "0" * 64}))
    assert (field, message) == ("data.options.sha256", "no file of this name is read.")
    assert not (folder / "sparse2d_cache").exists()
    assert refused(kaggle(folder, sha256={"train.txt": "0" * 63}))[0] == "data.options.sha256.train.txt"
    for day in range(3):
        write_criteo(folder / f"day_{day}", 40, seed=day)
    workload = load_workload("dlrm_dcnv2_criteo,data=criteo_1tb,days=2,lines=any", str(folder))
    for name, field in (("day_1", "data.location"), ("day_2", "data.options.sha256")):
        options = workload.data.options | {"sha256": {name: "0" * 64}}
        data = workload.data.model_copy(update={"options": options})
        assert refused(workload.model_copy(update={"data": data}))[0] == field


def test_days_of_the_1_tb_logs(tmp_path: Path) -> None:
    for day in range(3):
        write_criteo(tmp_path / f"day_{day}", 40 + day, seed=day)
    labels = [[line.label for line in read_criteo(tmp_path / f"day_{day}")] for day in range(3)]
    workload = load_workload("dlrm_dcnv2_criteo,data=criteo_1tb,days=3,lines=any", str(tmp_path))
    assert workload.name == "dlrm_dcnv2_criteo_on_criteo_1tb_3_days"
    workload = workload.model_copy(
        update={
            "data": workload.data.model_copy(
                update={"options": workload.data.options | {"shuffle_window": 1}}
            )
        }
    )
    source = open_source(workload, 0)
    assert source.train(30, 90).labels.tolist() == (labels[0] + labels[1] + labels[0])[30:90]
    assert source.evaluation(0, 99).labels.tolist() == labels[2][:21]
    # Multi-hot bags: the value's own id first, the others a function of it.
    samples = source.train(0, 81)
    for table in workload.tables:
        found, lengths = samples.sparse[table.features[0]]
        size = int(table.pooling_factor)
        assert set(lengths.tolist()) == {size}
        bags = found.reshape(-1, size)
        assert found.min() >= 0
        assert found.max() < table.rows
        assert len({tuple(bag) for bag in bags.tolist()}) == len(set(bags[:, 0].tolist()))
    number = int(samples.sparse["cat_20"][0].reshape(-1, 100)[0, 0])
    assert number == read_criteo(tmp_path / "day_0")[0].categories[20] % workload.tables[20].rows


def refused(workload: WorkloadSpec) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        open_source(workload, 0)
    assert caught.value.report.remedy
    return str(caught.value.report.field), caught.value.report.message


def test_what_does_not_fit_is_refused(folder: Path) -> None:
    assert refused(load_workload(KAGGLE))[0] == "data.location"
    assert "cannot hold 45,840,617" in refused(kaggle(folder, lines="published"))[1]
    assert refused(kaggle(folder, days=3))[0] == "data.options.days"
    assert refused(kaggle(folder, frequency_threshold=256))[0] == "data.options.frequency_threshold"
    workload = kaggle(folder)
    table = workload.tables[0]
    for change, field in (
        ({"features": ("user",)}, "features"),
        ({"pooling_factor": 1.5}, "pooling_factor"),
    ):
        tables = (table.model_copy(update=change), *workload.tables[1:])
        assert refused(workload.model_copy(update={"tables": tables}))[0] == f"tables.t_cat_0.{field}"
    model = workload.model.model_copy(update={"dense_features": 12})
    assert refused(workload.model_copy(update={"model": model}))[0] == "model.dense_features"


def test_unknown_data_of_a_workload_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no such data"):
        load_workload("dlrm_criteo_kaggle,data=criteo")


def test_the_fingerprint_is_the_files_content_and_the_split(folder: Path, tmp_path: Path) -> None:
    one = opened(folder).describe()["fingerprint"]
    assert opened(folder, seed=5).describe()["fingerprint"] == one
    assert opened(folder, evaluation_half="second").describe()["fingerprint"] != one
    other = tmp_path / "other"
    other.mkdir()
    write_criteo(other / "train.txt", LINES, seed=1)
    assert opened(other).describe()["fingerprint"] != one


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0, 3])
def test_a_million_lines_take_less_than_500_mib(tmp_path: Path, threshold: int) -> None:
    write_criteo(tmp_path / "train.txt", 50_000, repeat=20)
    program = (
        "from suite.catalog import load_workload\n"
        "from suite.data import open_source\n"
        f"workload = load_workload({KAGGLE!r} + ',frequency_threshold={threshold}', {str(tmp_path)!r})\n"
        "source = open_source(workload, 0)\n"
        "assert source.describe()['train_samples'] == 857_143\n"
        "source.train(0, 4096)\n"
        # Its own: the peak that wait4 tells is that of this test's process where that was the larger.
        "print(*(line for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    kib = int(done.stdout.split()[1])
    assert kib / 1024 < MOST_MIB
