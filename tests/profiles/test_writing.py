from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from profiles import writing
from profiles.folder import read_traces
from profiles.writing import Written, write_trace
from tests.helpers.kineto import Kineto


def exported(folder: Path) -> Path:
    trace = Kineto(world_size=1)
    for number in range(4):
        trace.step(number, 100 * number, 100 * number + 90)
        trace.range("[lookup]_[ebc]_[table_wise]", 100 * number + 10, 100 * number + 30 + number)
    trace.content["traceEvents"].append({"ph": "M", "name": "process_name", "args": {"name": "rank"}})
    return trace.write(folder / "exported.json")


def test_a_trace_is_kept_as_it_is(tmp_path: Path) -> None:
    source, path = exported(tmp_path), tmp_path / "kept" / "rank0.1.pt.trace.json.gz"
    path.parent.mkdir()
    assert write_trace(source, path) == Written(4, 0)
    assert gzip.decompress(path.read_bytes()) == source.read_bytes()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_last_steps_of_a_large_one_are_left_out_and_it_says_so(tmp_path: Path) -> None:
    source, path = exported(tmp_path), tmp_path / "kept" / "rank0.1.pt.trace.json.gz"
    path.parent.mkdir()
    events = json.loads(source.read_bytes())["traceEvents"]
    two_steps = sum(len(json.dumps(event)) for event in (*events[:4], events[-1]))
    assert write_trace(source, path, limit=two_steps + 20) == Written(2, 2)
    content = json.loads(gzip.decompress(path.read_bytes()))
    assert content["sparse2d_steps_left_out"] == 2
    assert content["distributedInfo"]["rank"] == 0
    assert content["traceEvents"][-1]["ph"] == "M"
    steps = read_traces(path.parent).ranks[0]
    assert [round(step.components["lookup"].exposed_ms * 1000) for step in steps] == [20, 21]


def test_one_step_stays_however_large(tmp_path: Path) -> None:
    path = tmp_path / "rank0.1.pt.trace.json.gz"
    assert write_trace(exported(tmp_path), path, limit=1) == Written(1, 3)


def test_nothing_is_left_of_a_trace_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    source = exported(tmp_path)
    folder = tmp_path / "kept"
    folder.mkdir()
    monkeypatch.setattr(writing.shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space left"):
        write_trace(source, folder / "rank0.1.pt.trace.json.gz")
    assert list(folder.iterdir()) == []
