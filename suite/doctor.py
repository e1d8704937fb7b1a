"""What this machine and installation can run, and what is wrong, each with its remedy."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from suite.catalog import each_workload
from suite.data import source_class
from suite.environment import STACK, available_cores, available_memory, gpus, installed
from suite.errors import ConfigError
from suite.spec import Frozen

#: FBGEMM and TorchRec 1.N are built against torch 2.(N + 5).
TORCH_MINOR_AHEAD = 5

_GIB = 2**30
_IMPORT = """
import json, torch, torch.distributed as dist
import fbgemm_gpu, torchrec
from torchrec.distributed.model_parallel import DistributedModelParallel
print(json.dumps({
    "gloo": dist.is_gloo_available(), "nccl": dist.is_nccl_available(),
    "cuda_build": torch.version.cuda, "cuda_devices": torch.cuda.device_count(),
}))
"""
IMPORT_DEADLINE_S = 180


class Check(Frozen):
    """One thing looked at. ``fail``: something that every run needs is broken."""

    name: str
    status: Literal["ok", "warn", "fail"]
    message: str
    remedy: str | None = None


def examine(runs_dir: Path) -> Iterator[Check]:
    """All checks, one after the other; the import of the stack takes some seconds."""
    versions, gpu_count = installed(STACK), len(gpus())
    yield _ok("python", platform.python_version())
    yield check_pairing(versions)
    yield check_fbgemm(_fbgemm_distributions(), versions, gpu_count)
    yield from check_stack(import_stack(sys.executable), gpu_count)
    yield check_cores(available_cores())
    yield check_memory(available_memory())
    yield check_shared_memory(Path("/dev/shm"))
    yield check_host_name(socket.gethostname(), socket.gethostbyname)
    yield check_runs_folder(runs_dir)
    yield from check_data()


def check_pairing(versions: Mapping[str, str]) -> Check:
    """torch 2.(N + 5) with torchrec and FBGEMM 1.N; ``versions`` by distribution name."""
    shown = ", ".join(f"{name} {version}" for name, version in versions.items()) or "nothing of it"
    remedy = "Install versions that fit together (`make setup` does; constraints.txt names them)."
    missing = [name for name in ("torch", "torchrec") if name not in versions]
    if missing:
        return _fail("versions", f"{' and '.join(missing)} not installed.", remedy)
    _, torch_minor = _release(versions["torch"])
    wanted = (1, torch_minor - TORCH_MINOR_AHEAD)
    wrong = [name for name, version in versions.items() if name != "torch" and _release(version) != wanted]
    if wrong:
        return _fail(
            "versions",
            f"{shown}: torch {versions['torch']} pairs with {wanted[0]}.{wanted[1]} of {', '.join(wrong)}.",
            remedy,
        )
    return _ok("versions", shown)


def check_fbgemm(providers: Sequence[str], versions: Mapping[str, str], gpu_count: int) -> Check:
    """Exactly one distribution provides ``fbgemm_gpu``, and it fits torch's build.

    Args:
        providers: distributions that hold files of the package ``fbgemm_gpu``.
        versions: of the stack, by distribution name.
    """
    if not providers:
        return _fail(
            "fbgemm",
            "neither fbgemm-gpu-cpu nor fbgemm-gpu is installed.",
            "Install fbgemm-gpu-cpu on a CPU machine, fbgemm-gpu on a CUDA machine.",
        )
    if len(providers) > 1:
        return _fail(
            "fbgemm",
            f"{' and '.join(providers)} overwrite each other's files.",
            "Uninstall both, then install fbgemm-gpu-cpu (CPU) or fbgemm-gpu (CUDA), not both.",
        )
    (provider,) = providers
    if provider == "fbgemm-gpu" and versions.get("torch", "").endswith("+cpu"):
        return _fail(
            "fbgemm",
            "fbgemm-gpu is a CUDA build, and torch is a CPU build.",
            "Install fbgemm-gpu-cpu instead.",
        )
    if provider == "fbgemm-gpu-cpu" and gpu_count:
        return _warn(
            "fbgemm",
            "fbgemm-gpu-cpu cannot use the GPUs of this machine.",
            "For --device cuda install fbgemm-gpu instead, with a CUDA build of torch.",
        )
    return _ok("fbgemm", provider)


def import_stack(python: str) -> dict[str, Any] | str:
    """Imports the stack in a process of its own: facts about it, or the error's last line."""
    try:
        done = subprocess.run(
            [python, "-c", _IMPORT], capture_output=True, text=True, timeout=IMPORT_DEADLINE_S
        )
    except subprocess.TimeoutExpired:
        return f"not done after {IMPORT_DEADLINE_S} s"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return lines[-1] if lines else f"ended with exit code {done.returncode} and no message"
    facts: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return facts


def check_stack(facts: dict[str, Any] | str, gpu_count: int) -> Iterator[Check]:
    """That torch, FBGEMM and TorchRec import, and which process-group backends there are."""
    if isinstance(facts, str):
        yield _fail(
            "import",
            f"torch, fbgemm_gpu and torchrec do not import together: {facts}",
            "Look at `versions` and `fbgemm` first; run `make setup` again otherwise.",
        )
        return
    yield _ok("import", "torch, fbgemm_gpu and torchrec import.")
    if facts["gloo"]:
        yield _ok("gloo", "available.")
    else:
        yield _fail("gloo", "this build of torch has no gloo.", "Install a build of torch with gloo.")
    if not gpu_count:
        yield _ok("cuda", "no GPU here; --device cpu is what runs.")
    elif facts["cuda_devices"] == 0:
        yield _warn(
            "cuda",
            f"{gpu_count} GPUs, but torch (built for CUDA: {facts['cuda_build']}) sees none.",
            "For --device cuda install a CUDA build of torch that fits the driver.",
        )
    elif not facts["nccl"]:
        yield _warn(
            "cuda", "this build of torch has no NCCL.", "For --device cuda install a build with NCCL."
        )
    else:
        yield _ok("cuda", f"{facts['cuda_devices']} GPUs, NCCL available.")


def check_cores(cores: int) -> Check:
    """Two ranks want two cores."""
    if cores < 2:
        return _warn(
            "cores",
            f"{cores}: two ranks share it, and their times mean little.",
            "Allow this process more cores.",
        )
    return _ok("cores", f"{cores}: times above --world-size {cores} mean little.")


def check_memory(size: int) -> Check:
    """A rank takes about half a GiB before it holds any table."""
    if size < 4 * _GIB:
        return _warn(
            "memory",
            f"{size / _GIB:.1f} GiB: a rank takes about 0.5 GiB before its tables.",
            "Use small world sizes.",
        )
    return _ok("memory", f"{size / _GIB:.1f} GiB")


def check_shared_memory(folder: Path) -> Check:
    """NCCL's ranks on one host meet in /dev/shm."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        free = 0
    if free < _GIB // 4 or not os.access(folder, os.W_OK):
        return _warn(
            "shared memory",
            f"{free / _GIB:.2f} GiB writable in {folder}; NCCL needs some for each rank.",
            "In a container: more --shm-size, or --ipc=host.",
        )
    return _ok("shared memory", f"{free / _GIB:.1f} GiB free in {folder}")


def check_host_name(name: str, resolve: Callable[[str], str]) -> Check:
    """gloo listens on the address of the host's name."""
    remedy = "For runs over several hosts: its address in /etc/hosts, or GLOO_SOCKET_IFNAME set."
    try:
        address = resolve(name)
    except OSError:
        return _warn("host name", f"{name} has no address.", remedy)
    if address.startswith("127."):
        return _warn("host name", f"{name} is {address}: other hosts cannot reach it.", remedy)
    return _ok("host name", f"{name} is {address}")


def check_runs_folder(runs_dir: Path) -> Check:
    """Records can be written where they go. Creates nothing."""
    try:
        nearest = next(p for p in (runs_dir.absolute(), *runs_dir.absolute().parents) if p.exists())
    except OSError as error:  # no permission on a folder above it, a name too long, no working folder
        return _fail(
            "runs folder",
            f"{runs_dir} cannot be looked at: {error.strerror}.",
            "Name another folder with --runs.",
        )
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return _fail(
            "runs folder",
            f"{nearest} cannot be written.",
            "Name another folder with --runs, or make it writable.",
        )
    free = shutil.disk_usage(nearest).free
    if free < _GIB // 10:
        return _warn(
            "runs folder",
            f"{free / 2**20:.0f} MiB free for {runs_dir}.",
            "Make room, or name another folder with --runs.",
        )
    return _ok("runs folder", f"{runs_dir} can be written.")


def check_data() -> Iterator[Check]:
    """That each workload's file is right and its data is here."""
    for name, workload in each_workload():
        if isinstance(workload, ConfigError):
            yield _warn(f"workload {name}", workload.report.message, workload.report.remedy)
            continue
        try:
            source_class(workload).check(workload)
        except ConfigError as error:
            yield _warn(f"data of {name}", error.report.message, error.report.remedy)
        else:
            yield _ok(f"data of {name}", "ready.")


def _ok(name: str, message: str) -> Check:
    return Check(name=name, status="ok", message=message)


def _warn(name: str, message: str, remedy: str | None) -> Check:
    return Check(name=name, status="warn", message=message, remedy=remedy)


def _fail(name: str, message: str, remedy: str) -> Check:
    return Check(name=name, status="fail", message=message, remedy=remedy)


def _fbgemm_distributions() -> list[str]:
    """Distributions that hold the files of ``fbgemm_gpu`` (a mere alias of the other one holds none)."""
    providers = []
    for name in ("fbgemm-gpu", "fbgemm-gpu-cpu"):
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            continue
        if any(file.parts[0] == "fbgemm_gpu" for file in files):
            providers.append(name)
    return providers


def _release(version: str) -> tuple[int, int]:
    """Major and minor of a version such as ``2.13.0+cpu``."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
