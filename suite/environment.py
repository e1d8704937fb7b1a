"""Where a run happens: versions, source, machine, and what may disturb it. Nothing here imports torch."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from suite.code_prints import code_prints
from suite.launchers.variables import BOX
from suite.record import ClusterRecord, EnvironmentRecord
from suite.spec import Frozen, RunSpec

#: Distributions whose versions are recorded where they are installed.
DISTRIBUTIONS = (
    "sparse2d-bench",
    "torch",
    "torchrec",
    "fbgemm-gpu",
    "fbgemm-gpu-cpu",
    "tensordict",
    "torchmetrics",
    "numpy",
    "scipy",
    "scikit-learn",
    "pydantic",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
)
#: Those that make up the stack: records of unlike ones are not compared unless asked.
STACK = ("torch", "torchrec", "fbgemm-gpu", "fbgemm-gpu-cpu")
VARIABLES = ("OMP_", "MKL_", "OPENBLAS_", "NCCL_", "GLOO_", "CUDA_VISIBLE_DEVICES")

#: ``busy``: others used more than this share of the machine's cores just before the launch. The load
#: average is recorded, but does not decide: for a minute after a run it still shows that run.
BUSY_SHARE = 0.2
BUSY_WINDOW_S = 0.3

_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


def capture(run: RunSpec | None) -> EnvironmentRecord:
    """The environment now, before a launch of ``run`` (None: of no run in particular).

    Flags: ``oversubscribed`` (on the CPU, more ranks on a host than cores), ``cluster_in_a_box`` (hosts and
    links are emulated on one machine), ``busy`` (others use the cores), ``dirty_tree`` (the checkout has
    uncommitted changes), ``virtual_machine``.
    """
    root = Path(__file__).resolve().parents[1]
    commit, dirty = git_state(root)
    cores = available_cores()
    cluster = _cluster(run)
    on_host = 0 if run is None else run.layout.world_size
    if run is not None and cluster is not None:
        on_host = run.layout.ranks_per_host or on_host
    flags = {
        "oversubscribed": run is not None and run.device == "cpu" and on_host > cores,
        "cluster_in_a_box": cluster is not None and cluster.emulated is not None,
        "busy": psutil.cpu_percent(BUSY_WINDOW_S) > 100 * BUSY_SHARE,
        "dirty_tree": bool(dirty),
        "virtual_machine": "hypervisor" in _cpu_facts().get("flags", "").split(),
    }
    return EnvironmentRecord(
        created=utc_now(),
        host=socket.gethostname(),
        platform=platform.platform(),
        python=platform.python_version(),
        versions=installed(DISTRIBUTIONS),
        git_commit=commit,
        git_dirty=dirty,
        cpu_model=_cpu_facts().get("model name") or platform.processor() or "unknown",
        cores=cores,
        memory_bytes=available_memory(),
        gpus=gpus(),
        network={"interfaces": sorted(psutil.net_if_addrs())},
        load_average=os.getloadavg()[0],
        variables={k: v for k, v in sorted(os.environ.items()) if k.startswith(VARIABLES)},
        flags=tuple(name for name, is_set in flags.items() if is_set),
        code={} if run is None else code_prints(run),
        cluster=cluster,
    )


def _cluster(run: RunSpec | None) -> ClusterRecord | None:
    if run is None or run.launcher == "local":
        return None
    return ClusterRecord(
        launcher=run.launcher,
        job=os.environ.get("SLURM_JOB_ID"),
        partition=os.environ.get("SLURM_JOB_PARTITION"),
        nodes=os.environ.get("SLURM_JOB_NODELIST"),
        emulated=os.environ.get(BOX),
    )


class EnvironmentDifference(Frozen):
    """One fact that two environments do not share."""

    field: str
    before: Any
    after: Any


def differences(before: EnvironmentRecord, after: EnvironmentRecord) -> list[EnvironmentDifference]:
    """What differs, fact by fact, apart from the time and the load average."""

    def facts(environment: EnvironmentRecord) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in environment.model_dump(mode="json", exclude={"created", "load_average"}).items():
            if isinstance(value, Mapping):
                found.update({f"{name}.{key}": inner for key, inner in value.items()})
            else:
                found[name] = value
        return found

    a, b = facts(before), facts(after)
    return [
        EnvironmentDifference(field=name, before=a.get(name), after=b.get(name))
        for name in sorted(a.keys() | b.keys())
        if a.get(name) != b.get(name)
    ]


def utc_now() -> str:
    """The time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def installed(distributions: tuple[str, ...]) -> dict[str, str]:
    """Versions of those distributions that are installed, read from their metadata."""
    versions = {}
    for name in distributions:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """Commit and dirty state of the checkout whose top folder is ``root``; None where it is none.

    An installed copy inside somebody else's checkout does not count.
    """
    top = _output("git", "-C", str(root), "rev-parse", "--show-toplevel")
    if top is None or Path(top.strip()).resolve() != root.resolve():
        return None, None
    commit = _output("git", "-C", str(root), "rev-parse", "HEAD")
    status = _output("git", "-C", str(root), "status", "--porcelain")
    return commit and commit.strip(), None if status is None else bool(status.strip())


def available_cores() -> int:
    """Whole cores this process may use: its affinity, cut by the CPU quota of its control groups."""
    cores = float(len(os.sched_getaffinity(0)))
    for folder in _cgroup_folders("cpu"):
        quota = _words(folder / "cpu.max") or [
            *_words(folder / "cpu.cfs_quota_us"),
            *_words(folder / "cpu.cfs_period_us"),
        ]
        if len(quota) == 2 and quota[0] not in ("max", "-1"):
            cores = min(cores, int(quota[0]) / int(quota[1]))
    return max(1, int(cores))


def available_memory() -> int:
    """Bytes of memory this process may use: the machine's, cut by the limit of its control groups."""
    limit: int = psutil.virtual_memory().total
    for folder in _cgroup_folders("memory"):
        for word in _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes"):
            if word != "max":
                limit = min(limit, int(word))
    return limit


def gpus() -> tuple[str, ...]:
    """One line a GPU (model, memory, driver) as nvidia-smi gives them; empty where there is none."""
    text = _output("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    return tuple(line.strip() for line in (text or "").splitlines() if line.count(",") == 2)


def visible_gpus() -> int:
    """How many GPUs a process may use: those present, cut by CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return len(gpus())
    return min(len(gpus()), len([entry for entry in visible.split(",") if entry.strip() not in ("", "-1")]))


def visible_gpu_memory() -> int:
    """Bytes of memory of the GPUs that a process may use; of the largest ones, where it may use some."""
    sizes = sorted((int(line.split(",")[-2].split()[0]) * 2**20 for line in gpus()), reverse=True)
    return sum(sizes[: visible_gpus()])


def _cgroup_folders(controller: str) -> list[Path]:
    """Control groups of this process for one controller, of either cgroup version, from the inside out."""
    folders: list[Path] = []
    for line in _text(_PROC / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top = _CGROUP
        elif controller in controllers.split(","):
            top = _CGROUP / controller
        else:
            continue
        inner = top / path.lstrip("/")
        folders += [inner, *(parent for parent in inner.parents if parent.is_relative_to(top))]
    return folders


def _cpu_facts() -> dict[str, str]:
    """Facts about the first processor in /proc/cpuinfo."""
    first = _text(_PROC / "cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _output(*command: str) -> str | None:
    """What a command prints; None where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
