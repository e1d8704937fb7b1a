from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from suite import store
from suite.errors import ConfigError, RunFailed
from tests.helpers.records import failed_launch, make_environment, make_launch, make_run

RUN = make_run()


def opened(runs: Path) -> store.RunFolder:
    return store.open_run(runs, RUN, make_environment())


def saved(runs: Path, *indices: int) -> Path:
    folder = opened(runs)
    for index in indices or (0,):
        folder.save_launch(make_launch(index))
    return folder.finish("complete", None)[1]


def test_a_finished_run_is_one_folder_named_after_workload_hash_time_and_id(tmp_path):
    path = saved(tmp_path / "runs", 0, 1)
    record = store.read(path / "record.json")
    assert path.parent == tmp_path / "runs" / "tiny" / RUN.workload.spec_hash
    assert path.name == record.run_id
    assert record.status == "complete"
    assert record.error is None
    assert record.run == RUN
    assert record.launches == (make_launch(0), make_launch(1))
    assert [p.name for p in path.iterdir()] == ["record.json"]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_while_it_runs_its_launches_are_on_disk_and_readable(tmp_path):
    folder = opened(tmp_path)
    folder.save_launch(make_launch(0))
    assert folder.path.name.startswith(".")
    record = store.load(str(folder.path), tmp_path)
    assert record.status == "partial"
    assert record.launches == (make_launch(0),)
    assert record.error is not None
    assert record.error.kind == "interrupted"


def test_a_parent_that_is_killed_leaves_a_partial_record(tmp_path):
    script = (
        "import os, signal, sys, pathlib\n"
        "from tests.suite.test_store import opened, make_launch\n"
        "folder = opened(pathlib.Path(sys.argv[1]))\n"
        "folder.save_launch(make_launch(0))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], timeout=60, check=False)
    assert done.returncode == -9
    (left,) = (tmp_path / "tiny" / RUN.workload.spec_hash).iterdir()
    run_id = left.name.removeprefix(".").removesuffix(".partial")
    assert store.load(run_id, tmp_path).status == "partial"
    assert len(store.load(run_id, tmp_path).launches) == 1


def test_failed_launches_and_their_errors_are_kept(tmp_path):
    folder = opened(tmp_path)
    folder.save_launch(make_launch(0))
    folder.save_launch(failed_launch(1))
    record, path = folder.finish("partial", failed_launch(1).error)
    again = store.read(path / "record.json")
    assert again == record
    assert [launch.status for launch in again.launches] == ["complete", "failed"]
    assert again.error == failed_launch(1).error


def test_runs_of_the_same_second_never_meet(tmp_path, monkeypatch):
    words = iter(["aaaaaa", "aaaaaa", "bbbbbb", "bbbbbb", "cccccc"])
    monkeypatch.setattr(store.secrets, "token_hex", lambda size: next(words))

    class Frozen(store.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 1, tzinfo=tz)

    monkeypatch.setattr(store, "datetime", Frozen)
    first = saved(tmp_path)  # aaaaaa
    second = opened(tmp_path)  # aaaaaa is a finished run: bbbbbb
    third = opened(tmp_path)  # bbbbbb is an unfinished one: cccccc
    names = [first.name, second.path.name, third.path.name]
    assert names == [
        "20260101T000000Z-aaaaaa",
        ".20260101T000000Z-bbbbbb.partial",
        ".20260101T000000Z-cccccc.partial",
    ]


@pytest.mark.parametrize("how", ["folder", "file", "id", "beginning", "short id"])
def test_a_run_is_found_by(how, tmp_path):
    path = saved(tmp_path)
    saved(tmp_path)
    short = path.name.rpartition("-")[2]
    name = {
        "folder": str(path),
        "file": str(path / "record.json"),
        "id": path.name,
        "beginning": path.name[:-1],
        "short id": short,
    }[how]
    assert store.find(name, tmp_path) == path


def test_a_beginning_that_fits_several_runs_lists_them(tmp_path):
    paths = [saved(tmp_path), saved(tmp_path)]
    with pytest.raises(ConfigError, match="2 runs fit this id") as raised:
        store.find("20", tmp_path)
    assert all(str(path) in raised.value.report.message for path in paths)


@pytest.mark.parametrize("name", ["", ".", "..", "zzzzzz", "no/such/folder", "record.json"])
def test_what_names_no_run(name, tmp_path):
    saved(tmp_path)
    with pytest.raises(ConfigError) as raised:
        store.find(name, tmp_path)
    assert raised.value.report.field == "run"
    assert raised.value.report.value == name


def damaged(path: Path, how: str) -> None:
    file = path / "record.json"
    content = json.loads(file.read_text())
    if how == "truncated":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        return
    if how == "empty":
        file.write_text("")
        return
    if how == "not text":
        file.write_bytes(b"\xff\xfe\x00")
        return
    if how == "a list":
        content = [content]
    elif how == "foreign":
        content = {"benchmarks": []}
    elif how == "newer":
        content["schema_version"] = 2
        content["launches"] = {"changed": "shape"}
    elif how == "field missing":
        del content["environment"]["cores"]
    elif how == "field unknown":
        content["launches"][0]["mood"] = "good"
    elif how == "wrong type":
        content["launches"][0]["ranks"][1]["step_ms"] = ["fast"]
    elif how == "invalid spec":
        content["run"]["layout"]["replica_groups"] = 3
    elif how == "workload changed":
        content["run"]["workload"]["tables"][0]["rows"] = 11
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("truncated", "not whole JSON"),
        ("empty", "not whole JSON"),
        ("not text", "not whole JSON"),
        ("a list", "no run record"),
        ("foreign", "no run record"),
        ("newer", "newer than 1"),
        ("field missing", "environment.cores"),
        ("field unknown", "launches.0.mood"),
        ("wrong type", "launches.0.ranks.1.step_ms.0"),
        ("invalid spec", "cannot be split"),
        ("workload changed", "is not that of its workload"),
    ],
)
def test_a_record_that_is_not_one_is_refused_by_name(how, words, tmp_path):
    path = saved(tmp_path)
    damaged(path, how)
    with pytest.raises(ConfigError, match=words) as raised:
        store.load(path.name, tmp_path)
    report = raised.value.report
    assert report.kind == "bad_record"
    assert report.value == str(path / "record.json")
    assert report.remedy


@pytest.mark.parametrize("error", [errno.EACCES, errno.ENAMETOOLONG])
def test_a_run_that_cannot_be_looked_for(error, tmp_path, monkeypatch):
    def is_file(path):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(Path, "is_file", is_file)
    with pytest.raises(ConfigError, match="cannot be looked for"):
        store.find("locked/run", tmp_path)


def test_a_record_nested_too_deep(tmp_path):
    path = tmp_path / "record.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="nested too deep"):
        store.read(path)


def test_a_record_is_utf8_whatever_the_locale(tmp_path):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from suite import store\n"
        "from tests.helpers.records import make_environment, make_run\n"
        "store.open_run(Path(sys.argv[1]), make_run(), make_environment(host='b\\u00fcro'))\n"
    )
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=os.environ | plain, timeout=60, check=True
    )
    (record,) = tmp_path.glob("*/*/*/record.json")
    assert store.read(record).environment.host == "b\u00fcro"


def test_a_runs_folder_that_is_a_file(tmp_path):
    (tmp_path / "runs").write_text("mine")
    with pytest.raises(ConfigError) as raised:
        opened(tmp_path / "runs")
    assert (raised.value.report.field, raised.value.report.kind) == ("runs", "environment")
    assert "--runs" in raised.value.report.remedy
    assert (tmp_path / "runs").read_text() == "mine"


def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the disk is full when data is flushed to it."""

    def fsync(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store.os, "fsync", fsync)


def test_a_full_disk_before_the_first_launch_leaves_no_run(tmp_path, monkeypatch):
    full(monkeypatch)
    with pytest.raises(ConfigError, match="No space left"):
        opened(tmp_path)
    assert list((tmp_path / "tiny" / RUN.workload.spec_hash).iterdir()) == []


def test_a_full_disk_later_keeps_what_was_saved(tmp_path, monkeypatch):
    folder = opened(tmp_path)
    folder.save_launch(make_launch(0))
    with monkeypatch.context() as patched:
        full(patched)
        with pytest.raises(RunFailed, match="No space left"):
            folder.save_launch(make_launch(1))
        with pytest.raises(RunFailed, match="No space left"):
            folder.finish("complete", None)
    assert [p.name for p in folder.path.iterdir()] == ["record.json"]
    record = store.read(folder.path / "record.json")
    assert (record.status, record.launches) == ("partial", (make_launch(0),))


@pytest.mark.skipif(shutil.which("mount") is None or os.geteuid() != 0, reason="needs root to mount a tmpfs")
def test_a_really_full_disk(tmp_path):
    # Mounted in a process of its own whose mounts nobody else sees and that end with it.
    script = (
        "import pathlib, sys\n"
        "from tests.suite.test_store import opened, make_launch, store, RunFailed\n"
        "folder = opened(pathlib.Path(sys.argv[1]))\n"
        "saved = 0\n"
        "try:\n"
        "    while True:\n"
        "        folder.save_launch(make_launch(saved))\n"
        "        saved += 1\n"
        "except RunFailed as error:\n"
        "    record = store.read(folder.path / 'record.json')\n"
        "    print(saved == len(record.launches) > 0, error.report.message, list(folder.path.iterdir()))\n"
    )
    mount = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=64k none "$1" && exec "$2" -c "$3" "$1"',
    ]
    done = subprocess.run(
        [*mount, "sh", str(tmp_path), sys.executable, script], capture_output=True, text=True, timeout=60
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout.startswith("True The record could not be saved: No space left on device.")
    assert done.stdout.count("PosixPath") == 1


@pytest.mark.skipif(shutil.which("mount") is None or os.geteuid() != 0, reason="needs root to mount a tmpfs")
def test_a_really_read_only_folder(tmp_path):
    script = (
        "import pathlib, sys\n"
        "from tests.suite.test_store import opened, ConfigError\n"
        "try:\n"
        "    opened(pathlib.Path(sys.argv[1]))\n"
        "except ConfigError as error:\n"
        "    print(error.report.field, error.report.message)\n"
    )
    mount = 'mount -t tmpfs -o ro none "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, script],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout == "runs records cannot be written there: Read-only file system.\n"


def test_a_clock_that_is_set_back_while_it_runs(tmp_path, monkeypatch):
    hours = iter([12, 12, 3, 3, 3])

    class Jumping(store.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 1, next(hours), tzinfo=tz)

    monkeypatch.setattr(store, "datetime", Jumping)
    folder = opened(tmp_path)
    folder.save_launch(make_launch(0))
    later = opened(tmp_path)
    record, path = folder.finish("complete", None)
    assert path.name == record.run_id == folder.path.name.removeprefix(".").removesuffix(".partial")
    assert store.load(path.name, tmp_path) == record
    assert later.path.exists()
