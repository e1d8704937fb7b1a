from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from suite import environment
from suite.environment import differences
from tests.helpers.records import make_environment, make_run


def test_captures_without_importing_torch():
    script = "import sys\nfrom suite.environment import capture\ncapture(None)\nprint('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"


def test_what_it_captures(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    found = environment.capture(None)
    assert found.variables["OMP_NUM_THREADS"] == "3"
    assert found.variables["NCCL_DEBUG"] == "WARN"
    assert "hidden" not in found.model_dump_json()
    assert found.versions["torch"].startswith("2.")
    assert "pip" not in found.versions
    assert 1 <= found.cores <= (os.cpu_count() or 1)
    assert found.memory_bytes > 2**28
    assert "lo" in found.network["interfaces"]
    assert found.cpu_model != "unknown"


@pytest.mark.parametrize(
    ("world_size", "device", "is_flagged"), [(2, "cpu", False), (3, "cpu", True), (3, "cuda", False)]
)
def test_more_ranks_than_cores_are_oversubscribed_on_the_cpu(world_size, device, is_flagged, monkeypatch):
    monkeypatch.setattr(environment, "available_cores", lambda: 2)
    run = make_run(layout={"world_size": world_size}, device=device)
    assert ("oversubscribed" in environment.capture(run).flags) == is_flagged


@pytest.mark.parametrize(("percent", "is_flagged"), [(5.0, False), (60.0, True)])
def test_busy_is_what_others_use_just_now(percent, is_flagged, monkeypatch):
    monkeypatch.setattr(environment.psutil, "cpu_percent", lambda interval: percent)
    assert ("busy" in environment.capture(None).flags) == is_flagged


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    done = subprocess.run(
        ["git", *who, "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_commit_and_dirty_state_of_the_checkout(tmp_path):
    assert environment.git_state(tmp_path) == (None, None)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "code.py").write_text("1\n")
    assert environment.git_state(tmp_path) == (None, True)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    assert environment.git_state(tmp_path) == (git(tmp_path, "rev-parse", "HEAD"), False)
    (tmp_path / "code.py").write_text("2\n")
    assert environment.git_state(tmp_path)[1] is True


def test_a_copy_inside_somebody_elses_checkout_is_none(tmp_path):
    git(tmp_path, "init", "--quiet")
    (tmp_path / "site-packages").mkdir()
    assert environment.git_state(tmp_path / "site-packages") == (None, None)


def control_groups(monkeypatch: pytest.MonkeyPatch, root: Path, own: str, files: dict[str, str]) -> None:
    """A machine of 8 cores and 64 GiB with these control-group files."""
    for name, content in {"proc/self/cgroup": own, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    monkeypatch.setattr(environment, "_PROC", root / "proc")
    monkeypatch.setattr(environment, "_CGROUP", root / "cgroup")
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda pid: set(range(8)))

    class Memory:
        total = 64 * 2**30

    monkeypatch.setattr(environment.psutil, "virtual_memory", Memory)


@pytest.mark.parametrize(
    ("own", "files", "cores", "gib"),
    [
        ("0::/\n", {}, 8, 64),
        ("0::/job\n", {"cgroup/job/cpu.max": "max 100000\n", "cgroup/job/memory.max": "max\n"}, 8, 64),
        ("0::/job\n", {"cgroup/job/cpu.max": "250000 100000\n"}, 2, 64),
        ("0::/job\n", {"cgroup/job/cpu.max": "25000 100000\n"}, 1, 64),
        # The limit of a parent holds for its children.
        ("0::/a/b\n", {"cgroup/a/cpu.max": "300000 100000\n", "cgroup/a/memory.max": str(2**30)}, 3, 1),
        (
            "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n",
            {
                "cgroup/cpu/job/cpu.cfs_quota_us": "400000\n",
                "cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
                "cgroup/memory/job/memory.limit_in_bytes": str(3 * 2**30),
            },
            4,
            3,
        ),
        (
            "5:cpu,cpuacct:/\n",
            {"cgroup/cpu/cpu.cfs_quota_us": "-1\n", "cgroup/cpu/cpu.cfs_period_us": "100000\n"},
            8,
            64,
        ),
    ],
)
def test_cores_and_memory_are_those_of_the_control_group(own, files, cores, gib, tmp_path, monkeypatch):
    control_groups(monkeypatch, tmp_path, own, files)
    assert environment.available_cores() == cores
    assert environment.available_memory() == gib * 2**30


def nvidia_smi(monkeypatch: pytest.MonkeyPatch, folder: Path, output: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.mark.parametrize(
    ("visible", "count"), [(None, 2), ("0", 1), ("0,1", 2), ("", 0), ("-1", 0), ("0,1,2,3", 2)]
)
def test_gpus_and_how_many_are_visible(visible, count, tmp_path, monkeypatch):
    nvidia_smi(monkeypatch, tmp_path, "NVIDIA X, 81559 MiB, 550.1\nNVIDIA X, 81559 MiB, 550.1")
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert environment.gpus() == ("NVIDIA X, 81559 MiB, 550.1",) * 2
    assert environment.visible_gpus() == count


def test_a_driver_without_gpus_has_none(tmp_path, monkeypatch):
    nvidia_smi(monkeypatch, tmp_path, "No devices were found")
    assert environment.gpus() == ()


def test_differences_are_facts_and_not_the_time():
    before = make_environment()
    after = make_environment(
        created="2027-01-01T00:00:00+00:00",
        load_average=7.0,
        cores=8,
        versions={"torch": "2.14.0", "torchrec": "1.8.0"},
        variables={"OMP_NUM_THREADS": "2"},
        flags=["busy"],
    )
    found = {d.field: (d.before, d.after) for d in differences(before, after)}
    assert found == {
        "cores": (4, 8),
        "versions.torch": ("2.13.0+cpu", "2.14.0"),
        "versions.fbgemm-gpu-cpu": ("1.8.0", None),
        "variables.OMP_NUM_THREADS": (None, "2"),
        "flags": ([], ["busy"]),
    }
    assert differences(before, before) == []
