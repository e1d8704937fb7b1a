from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from suite import doctor
from suite.errors import ConfigError

STACK = {"torch": "2.13.0", "torchrec": "1.8.0", "fbgemm-gpu": "1.8.0"}


@pytest.mark.parametrize(
    ("versions", "status", "words"),
    [
        (STACK, "ok", "torchrec 1.8.0"),
        ({"torch": "2.13.0+cpu", "torchrec": "1.8.0", "fbgemm-gpu-cpu": "1.8.0"}, "ok", "2.13.0+cpu"),
        ({"torch": "2.14.1", "torchrec": "1.9.0", "fbgemm-gpu": "1.9.2"}, "ok", "2.14.1"),
        (STACK | {"torchrec": "1.7.0"}, "fail", "1.8 of torchrec"),
        (STACK | {"fbgemm-gpu": "1.9.0"}, "fail", "1.8 of fbgemm-gpu"),
        (STACK | {"torch": "2.12.0"}, "fail", "1.7 of torchrec, fbgemm-gpu"),
        ({"torch": "2.13.0"}, "fail", "torchrec not installed"),
        ({}, "fail", "torch and torchrec not installed"),
    ],
)
def test_which_versions_pair(versions, status, words):
    found = doctor.check_pairing(versions)
    assert found.status == status
    assert words in found.message
    assert (found.remedy is not None) == (status == "fail")


@pytest.mark.parametrize(
    ("providers", "torch", "gpus", "status", "words"),
    [
        (["fbgemm-gpu-cpu"], "2.13.0+cpu", 0, "ok", "fbgemm-gpu-cpu"),
        (["fbgemm-gpu"], "2.13.0", 8, "ok", "fbgemm-gpu"),
        ([], "2.13.0+cpu", 0, "fail", "neither"),
        (["fbgemm-gpu", "fbgemm-gpu-cpu"], "2.13.0", 8, "fail", "overwrite"),
        (["fbgemm-gpu"], "2.13.0+cpu", 0, "fail", "CUDA build"),
        (["fbgemm-gpu-cpu"], "2.13.0", 8, "warn", "cannot use the GPUs"),
    ],
)
def test_one_distribution_of_fbgemm_that_fits_torch(providers, torch, gpus, status, words):
    found = doctor.check_fbgemm(providers, {"torch": torch}, gpus)
    assert found.status == status
    assert words in found.message


FACTS = {"gloo": True, "nccl": True, "cuda_build": "13.0", "cuda_devices": 2}


@pytest.mark.parametrize(
    ("facts", "gpus", "statuses"),
    [
        (FACTS, 2, {"import": "ok", "gloo": "ok", "cuda": "ok"}),
        (FACTS | {"cuda_devices": 0, "nccl": False}, 0, {"import": "ok", "gloo": "ok", "cuda": "ok"}),
        (FACTS | {"cuda_devices": 0}, 2, {"import": "ok", "gloo": "ok", "cuda": "warn"}),
        (FACTS | {"nccl": False}, 2, {"import": "ok", "gloo": "ok", "cuda": "warn"}),
        (FACTS | {"gloo": False}, 0, {"import": "ok", "gloo": "fail", "cuda": "ok"}),
        ("ImportError: undefined symbol", 0, {"import": "fail"}),
    ],
)
def test_what_the_import_of_the_stack_shows(facts, gpus, statuses):
    found = list(doctor.check_stack(facts, gpus))
    assert {check.name: check.status for check in found} == statuses
    assert all(check.remedy for check in found if check.status != "ok")


def python(folder: Path, script: str) -> str:
    """A program that stands in for Python."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo Traceback >&2; echo 'ImportError: no such symbol' >&2; exit 1", "ImportError: no such symbol"),
        ("kill -SEGV $$", "ended with exit code -11"),
        ("exec sleep 60", "not done after 0.5 s"),
    ],
)
def test_a_stack_that_does_not_import(script, words, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "IMPORT_DEADLINE_S", 0.5)
    found = doctor.import_stack(python(tmp_path, script))
    assert isinstance(found, str)
    assert words in found


def test_warnings_around_the_facts_do_not_hide_them(tmp_path):
    found = doctor.import_stack(python(tmp_path, "echo a warning; echo another >&2; echo '{\"gloo\": true}'"))
    assert found == {"gloo": True}


@pytest.mark.slow
def test_the_stack_here_imports():
    found = doctor.import_stack(sys.executable)
    assert isinstance(found, dict), found
    assert found["gloo"] is True


def unresolvable(name: str) -> str:
    raise OSError("Name or service not known")


@pytest.mark.parametrize(
    ("resolve", "status", "words"),
    [
        (lambda name: "10.0.0.7", "ok", "node0 is 10.0.0.7"),
        (lambda name: "127.0.1.1", "warn", "other hosts cannot reach it"),
        (unresolvable, "warn", "has no address"),
    ],
)
def test_the_address_of_the_hosts_name(resolve, status, words):
    found = doctor.check_host_name("node0", resolve)
    assert found.status == status
    assert words in found.message


@pytest.mark.parametrize(("cores", "status"), [(1, "warn"), (2, "ok")])
def test_cores(cores, status):
    assert doctor.check_cores(cores).status == status


@pytest.mark.parametrize(("gib", "status"), [(2, "warn"), (16, "ok")])
def test_memory(gib, status):
    assert doctor.check_memory(gib * 2**30).status == status


def disk(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    class Usage:
        pass

    usage = Usage()
    usage.free = free  # type: ignore[attr-defined]
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)


@pytest.mark.parametrize(("mib", "status"), [(64, "warn"), (2048, "ok")])
def test_a_containers_small_shared_memory(mib, status, tmp_path, monkeypatch):
    disk(monkeypatch, mib * 2**20)
    assert doctor.check_shared_memory(tmp_path).status == status


def test_no_shared_memory_at_all(tmp_path):
    assert doctor.check_shared_memory(tmp_path / "missing").status == "warn"


def test_a_runs_folder_that_is_not_there_yet_and_is_not_made(tmp_path):
    assert doctor.check_runs_folder(tmp_path / "a" / "runs").status == "ok"
    assert list(tmp_path.iterdir()) == []


def test_a_runs_folder_that_is_a_file(tmp_path):
    (tmp_path / "runs").write_text("")
    assert doctor.check_runs_folder(tmp_path / "runs").status == "fail"


def test_a_runs_folder_that_cannot_be_looked_at(tmp_path):
    check = doctor.check_runs_folder(tmp_path / ("x" * 300))
    assert check.status == "fail"
    assert "cannot be looked at" in check.message


def test_a_runs_folder_that_cannot_be_written(tmp_path, monkeypatch):
    # Root may write everywhere, so the answer of the system is replaced.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert doctor.check_runs_folder(tmp_path).status == "fail"


def test_a_runs_folder_on_a_full_disk(tmp_path, monkeypatch):
    disk(monkeypatch, 2**20)
    assert doctor.check_runs_folder(tmp_path).status == "warn"


class Source:
    @staticmethod
    def check(workload: Any) -> None:
        if workload.name == "other":
            raise ConfigError("data.location", None, "The files are not here.", "Get them.")


def test_workloads_whose_file_is_wrong_or_whose_data_are_missing(monkeypatch):
    from tests.helpers.records import other, tiny

    wrong = ConfigError("name", None, "in specs.bad:bad: Field required.", "Add it.")
    found = [("tiny", tiny()), ("bad", wrong), ("other", other())]
    monkeypatch.setattr(doctor, "each_workload", lambda: iter(found))
    monkeypatch.setattr(doctor, "source_class", lambda workload: Source)
    assert [(c.name, c.status, c.remedy) for c in doctor.check_data()] == [
        ("data of tiny", "ok", None),
        ("workload bad", "warn", "Add it."),
        ("data of other", "warn", "Get them."),
    ]
