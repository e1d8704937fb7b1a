"""Reads a Kineto trace (what ``torch.profiler`` writes), gzipped or plain, and keeps what a breakdown needs.

A trace of 300 MB holds a million events, nearly all of them operators that say nothing about components.
The file is decoded into typed events, arguments left undecoded, and only these are kept: ranges that
name a component or a step, collectives, what ran on a device, and what launched it.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from suite.errors import ConfigError

STEP = re.compile(r"ProfilerStep#(\d+)")
#: Every trace that the suite takes says under this key whose it is.
METADATA = "sparse2d"
DEVICE_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
LAUNCH_CATEGORIES = frozenset({"cuda_runtime", "cuda_driver"})
HOST_CATEGORIES = frozenset({"cpu_op", "user_annotation"})
_COLLECTIVE = ("c10d::", "gloo:", "record_param_comms")
_NO_ARGUMENTS = msgspec.Raw(b"{}")

Thread = tuple[int | str, int | str]


class Event(msgspec.Struct, gc=False):
    """One event as the file has it: times in microseconds since the file's base time."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    pid: int | str = 0
    tid: int | str = 0
    args: msgspec.Raw = _NO_ARGUMENTS


class _Distributed(msgspec.Struct):
    rank: int | None = None
    world_size: int | None = None
    pg_config: Any = None


class _File(msgspec.Struct):
    traceEvents: list[Event]
    distributedInfo: _Distributed = msgspec.field(default_factory=_Distributed)
    sparse2d: dict[str, Any] = msgspec.field(default_factory=dict)
    baseTimeNanoseconds: int = 0
    host_name: str = ""


class Span(msgspec.Struct, frozen=True, gc=False):
    """An event that is kept: absolute nanoseconds of its host's clock."""

    name: str
    start: int
    end: int
    thread: Thread
    component: str | None = None
    arguments: msgspec.Raw = _NO_ARGUMENTS

    def decoded(self) -> dict[str, Any]:
        """Its arguments; none where they are not an object."""
        try:
            return msgspec.json.decode(self.arguments, type=dict[str, Any])
        except msgspec.DecodeError:
            return {}


@dataclass(frozen=True)
class Trace:
    """One rank's trace.

    Attributes:
        path: the file.
        rank, world_size: from ``distributedInfo``; None where the file does not say.
        host: its name, empty where the file does not say.
        metadata: what the suite wrote into it; empty in others' traces.
        groups: the ranks of each process group of more than one rank.
        steps: ranges named ``ProfilerStep#<n>``.
        ranges: host ranges of a component.
        collectives: operators of the ``c10d`` namespace.
        in_flight: from the issue of a collective of gloo to its end.
        described: what NCCL's process group tells of its collectives.
        device: kernels and copies on a device, with the correlation of each.
        launches: by correlation, when and on which thread it was launched.
        repaired: events whose duration was negative, taken as nothing.
    """

    path: Path
    rank: int | None
    world_size: int | None
    host: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    groups: tuple[tuple[int, ...], ...] = ()
    steps: list[Span] = field(default_factory=list)
    ranges: list[Span] = field(default_factory=list)
    collectives: list[Span] = field(default_factory=list)
    in_flight: list[Span] = field(default_factory=list)
    described: list[Span] = field(default_factory=list)
    device: list[tuple[Span, int | None]] = field(default_factory=list)
    launches: dict[int, Span] = field(default_factory=dict)
    repaired: int = 0


def bad_trace(path: Path, message: str, remedy: str) -> ConfigError:
    """The one error of every trace that cannot be read."""
    return ConfigError("trace", str(path), message, remedy, kind="bad_trace")


def read(path: Path, ranges: Mapping[str, tuple[str, ...]]) -> Trace:
    """Reads one file.

    Args:
        path: ends in ``.json`` or ``.json.gz``.
        ranges: the prefixes of the names that make up each component; a trace of the suite brings its own.

    Raises:
        ConfigError: of kind ``bad_trace``: it cannot be read, is truncated, empty, or no trace.
    """
    content = _decoded(path)
    named = content.sparse2d.get("ranges")
    if isinstance(named, dict):
        ranges = {str(name): tuple(map(str, prefixes)) for name, prefixes in named.items()}
    trace = Trace(
        path=path,
        rank=content.distributedInfo.rank,
        world_size=content.distributedInfo.world_size,
        host=content.host_name,
        metadata=content.sparse2d,
        groups=_groups(content.distributedInfo.pg_config),
    )
    events, content.traceEvents = content.traceEvents, []
    repaired = _sort_into(trace, events, content.baseTimeNanoseconds, component_of(ranges))
    if not (trace.ranges or trace.collectives or trace.device or trace.steps):
        raise bad_trace(
            path,
            "no event of it belongs to training with TorchRec.",
            "Profile training steps, with the CPU activity on, also on GPUs.",
        )
    return trace if not repaired else Trace(**{**vars(trace), "repaired": repaired})


def _decoded(path: Path) -> _File:
    again = "Profile again; torch.profiler's export_chrome_trace or tensorboard_trace_handler writes it."
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise bad_trace(path, f"its compression is broken, probably truncated: {error}.", again) from error
    except OSError as error:
        raise bad_trace(
            path, f"it cannot be read: {error.strerror}.", "Check the path and its permissions."
        ) from error
    if not data.strip():
        raise bad_trace(path, "the file is empty.", again)
    try:
        return msgspec.json.decode(data, type=_File)
    except msgspec.ValidationError as error:
        raise bad_trace(path, f"it is no Kineto trace: {error}.", again) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_trace(path, f"it is not whole JSON, probably truncated: {error}.", again) from error


def component_of(ranges: Mapping[str, tuple[str, ...]]) -> Callable[[str], str | None]:
    """The component of a name by its longest prefix; each distinct name is looked at once."""
    prefixes = sorted(
        ((prefix, component) for component, names in ranges.items() for prefix in names),
        key=lambda pair: -len(pair[0]),
    )
    known: dict[str, str | None] = {}

    def component(name: str) -> str | None:
        if name not in known:
            known[name] = next((c for prefix, c in prefixes if name.startswith(prefix)), None)
        return known[name]

    return component


def _sort_into(
    trace: Trace, events: list[Event], base: int, component_of: Callable[[str], str | None]
) -> int:
    """Puts every event that is needed into its place; returns how many durations were negative."""
    repaired = 0
    for event in events:
        if event.ph != "X":
            continue
        host = event.cat in HOST_CATEGORIES
        component = component_of(event.name) if host else None
        collective = host and event.name.startswith(_COLLECTIVE)
        step = host and event.name.startswith("ProfilerStep#")
        device, launch = event.cat in DEVICE_CATEGORIES, event.cat in LAUNCH_CATEGORIES
        if not (component or collective or step or device or launch):
            continue
        repaired += event.dur < 0
        start = base + round(event.ts * 1000)
        end = start + max(0, round(event.dur * 1000))
        span = Span(event.name, start, end, (event.pid, event.tid), component, event.args)
        if step:
            trace.steps.append(span)
        elif device:
            trace.device.append((span, _correlation(span)))
        elif launch:
            correlation = _correlation(span)
            if correlation is not None:
                trace.launches[correlation] = span
        elif event.name.startswith("gloo:"):
            trace.in_flight.append(span)
        elif event.name.startswith("record_param_comms"):
            trace.described.append(span)
        else:
            if component is not None:
                trace.ranges.append(span)
            if event.name.startswith("c10d::"):
                trace.collectives.append(span)
    for spans in (trace.steps, trace.ranges, trace.collectives, trace.in_flight, trace.described):
        spans.sort(key=lambda span: (span.start, -span.end))
    return repaired


class _Correlated(msgspec.Struct):
    correlation: int | None = None


def _correlation(span: Span) -> int | None:
    try:
        return msgspec.json.decode(span.arguments, type=_Correlated).correlation
    except msgspec.DecodeError:
        return None


def _groups(configured: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(configured, list):
        return ()
    found = [entry.get("ranks") for entry in configured if isinstance(entry, dict)]
    return tuple(
        tuple(cast("list[int]", ranks)) for ranks in found if isinstance(ranks, list) and len(ranks) > 1
    )
