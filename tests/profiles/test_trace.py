"""Files that are no good trace: handled, or refused with one error that says what to do."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from profiles.folder import read_traces
from profiles.trace import read
from suite.errors import ConfigError
from suite.implementations.ranges import TORCHREC_RANGES
from tests.helpers.kineto import Kineto


def good() -> Kineto:
    trace = Kineto(world_size=1)
    trace.step(0, 0, 100)
    trace.range("[lookup]_[ebc]_[table_wise]", 40, 60)
    return trace


def whole() -> bytes:
    return json.dumps(good().content).encode()


def packed() -> bytes:
    # Without the time of day in it: two processes of a parallel run must collect the same names.
    return gzip.compress(whole(), mtime=0)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("empty.json", b"", "the file is empty"),
        ("truncated.json", whole()[:-40], "not whole JSON"),
        ("truncated.json.gz", packed()[:-20], "compression is broken"),
        ("garbled.json.gz", packed()[:30] + bytes(40), "compression is broken"),
        ("foreign.json", b'{"a": 1}', "no Kineto trace"),
        ("list.json", b"[1, 2]", "no Kineto trace"),
        ("other_types.json", b'{"traceEvents": [{"name": 3}]}', "no Kineto trace"),
        ("binary.json", bytes(range(256)), "not whole JSON"),
        ("no_training.json", b'{"traceEvents": []}', "no event of it belongs to training"),
        ("deep.json", b'{"traceEvents": ' + b"[" * 100_000, "no Kineto trace"),
    ],
    ids=lambda value: value if isinstance(value, str) else "data",
)
def test_one_error_names_the_file(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read(path, TORCHREC_RANGES)
    report = caught.value.report
    assert (report.kind, report.field, report.value) == ("bad_trace", "trace", str(path))
    assert message in report.message
    assert report.remedy


def test_a_folder_without_traces(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no trace in it"):
        read_traces(tmp_path)


def test_a_negative_duration_counts_as_nothing_and_is_told(tmp_path: Path) -> None:
    trace = good()
    trace.range("[output_dist]_[ebc]_[table_wise]", 80, 70)
    trace.write(tmp_path / "a.1.pt.trace.json")
    found = read_traces(tmp_path)
    assert found.ranks[0][0].components["output_dist"].busy_ms == 0
    assert found.notes == ("1 events had a negative duration and count as nothing",)


def test_names_of_other_versions_and_loops(tmp_path: Path) -> None:
    """TorchRec's pipelines name the passes; the sharded modules may name the whole input distribution."""
    trace = Kineto(world_size=1)
    trace.step(0, 0, 100)
    trace.range("## start_sparse_data_dist 1 ##", 0, 10)
    trace.range("## forward ##", 10, 40)
    trace.range("## backward ##", 40, 80)
    trace.operator("fbgemm::split_embedding_backward_codegen_adam_cpu", 50, 60)
    trace.range("## optimizer ##", 80, 90)
    trace.range("## 2d_weight_sync ##", 90, 95)
    trace.write(tmp_path / "a.1.pt.trace.json")
    (step,) = read_traces(tmp_path).ranks[0]
    exposed = {name: round(of.exposed_ms * 1000) for name, of in step.components.items() if of.exposed_ms}
    assert exposed == {
        "input_dist": 10,
        "dense_forward": 30,
        "dense_backward": 30,
        "lookup_backward_optimizer": 10,
        "dense_optimizer": 10,
        "replica_sync": 5,
        "other": 5,
    }


READ = """
import resource, sys
from pathlib import Path
from profiles.folder import read_traces
found = read_traces(Path(sys.argv[1]))
assert len(found.ranks[0]) == 310
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
"""


def write_large(path: Path, steps: int) -> int:
    """A GPU's trace, step by step: 3,000 operators with their shapes, 1,500 launches and kernels each.

    Returns:
        Bytes of JSON.
    """
    shapes = '{"External id": 1, "Input Dims": [[1024, 64], [64, 64]], "Input type": ["float", "float"]}'
    kernel = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_nn_align4>(cutlass::Params)"
    size = 0
    with gzip.open(path, "wb", compresslevel=1) if path.suffix == ".gz" else path.open("wb") as file:

        def write(text: str) -> None:
            nonlocal size
            size += file.write(text.encode())

        def event(category: str, name: str, start: float, length: float, arguments: str = "{}") -> None:
            write(
                f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 1, "tid": 1, '
                f'"ts": {start:.3f}, "dur": {length:.3f}, "args": {arguments}}},\n'
            )

        write('{"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [\n')
        for number in range(steps):
            start = number * 100_000.0
            event("user_annotation", f"ProfilerStep#{number}", start, 90_000)
            event("user_annotation", "## dense_forward ##", start, 40_000)
            event("user_annotation", "## dense_backward ##", start + 40_000, 50_000)
            for i in range(3000):
                event("cpu_op", "aten::addmm", start + 30 * i, 20, shapes)
            for i in range(1500):
                correlation = f'{{"correlation": {number * 1500 + i}}}'
                event("cuda_runtime", "cudaLaunchKernel", start + 60 * i, 2, correlation)
                event("kernel", kernel, start + 60 * i, 50, correlation)
        write('{"ph": "M", "name": "process_name"}]}')
    return size


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_300_mb_are_read_within_a_minute_and_two_gib(suffix: str, tmp_path: Path) -> None:
    size = write_large(tmp_path / f"rank0.1.pt.trace.{suffix}", steps=310)
    assert size > 300e6
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path)], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    # Of one thread, so that these are the seconds it takes on a machine that does nothing else.
    seconds, peak = map(float, done.stdout.split())
    print(f"{size / 1e6:.0f} MB: {seconds:.1f} s, {peak / 2**30:.2f} GiB")
    assert seconds < 60
    assert peak < 2 * 2**30
