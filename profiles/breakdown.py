"""From one rank's trace to the components of its steps.

Whose is a moment of the host? Ranges nest, and names of one component occur inside another (TorchRec's wait
for the ids lies in a range named after the output). The OUTERMOST range of a component decides, with one
exception: ``dense_forward`` and ``dense_backward`` are around a whole pass and give way to anything inside
them. So they hold what is left of the forward and backward pass, Python included. A backward pass on its
own thread (CUDA) counts where the main thread only waits for it.

What is the step waiting for? At each moment for one thing, in this order: a device's compute kernel; a
device's communication; else the host, and there whatever range it is in. What no range covers is ``other``.
On a CPU, only the last rule applies. Where kernels of two components run at once the one that comes first
in ``COMPONENTS`` has the moment, compute before communication.

``busy`` is all of a component's own activity: its moments of the host, its collectives in flight (on gloo's
threads, or as NCCL's kernels), its other kernels. A kernel belongs to the component of the host's moment
in which it was launched, found by its correlation id.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from profiles.collectives import Collective, find
from profiles.intervals import Interval, difference, intersection, length, union
from profiles.trace import STEP, Span, Thread, Trace
from suite.components import COMMUNICATION, COMPONENTS

#: Around a whole pass: they give way to other components' ranges inside them.
AROUND = frozenset({"dense_forward", "dense_backward"})


@dataclass(frozen=True)
class StepTimes:
    """One step on one rank; sets of time in nanoseconds.

    Attributes:
        number: of the step, to find the same one on other ranks.
        whole: the step.
        exposed, busy: by component.
        collectives: in the order in which they were issued.
    """

    number: int
    whole: Interval
    exposed: dict[str, list[Interval]]
    busy: dict[str, list[Interval]]
    collectives: tuple[Collective, ...]

    @property
    def other(self) -> int:
        """Nanoseconds that no component accounts for."""
        return self.whole[1] - self.whole[0] - sum(length(times) for times in self.exposed.values())


def break_down(trace: Trace) -> list[StepTimes]:
    """Every step of a trace; the whole trace as one step where none is marked."""
    host = _Host(trace)
    kernels, of_collectives = _kernels(trace, host)
    collectives = sorted(find(trace, host.component_of, of_collectives), key=lambda c: c.start)
    # No kernel before this place reaches into a step that begins later than this.
    reach = list(accumulate((kernel.end for kernel in kernels), max))
    starts = [collective.start for collective in collectives]
    return [
        _step(
            number,
            whole,
            host,
            islice(kernels, bisect_right(reach, whole[0]), None),
            collectives[bisect_left(starts, whole[0]) : bisect_left(starts, whole[1])],
        )
        for number, whole in _steps(trace)
    ]


class _Host:
    """Which component each thread of the host is in, moment by moment."""

    def __init__(self, trace: Trace) -> None:
        counts: dict[Thread, int] = defaultdict(int)
        inner: dict[Thread, list[Span]] = defaultdict(list)
        around: dict[Thread, list[Span]] = defaultdict(list)
        for span in trace.ranges:
            counts[span.thread] += span.end - span.start
            (around if span.component in AROUND else inner)[span.thread].append(span)
        marked = trace.steps[0].thread if trace.steps else None
        self.main = marked if marked is not None else max(counts, key=lambda t: counts[t], default=(0, 0))
        others = sorted((thread for thread in counts if thread != self.main), key=str)
        threads = [self.main, *others]
        self._inner = {thread: _Track(_outermost(inner[thread])) for thread in threads}
        self._around = {thread: _Track(_outermost(around[thread])) for thread in threads}
        #: Who has a moment, first to last.
        self.order = [
            self._inner[self.main],
            *(self._inner[thread] for thread in others),
            self._around[self.main],
            *(self._around[thread] for thread in others),
        ]

    def component_of(self, span: Span) -> str | None:
        """The component that a host event begins in."""
        for tracks in (self._inner, self._around):
            if span.thread in tracks and (found := tracks[span.thread].at(span.start)) is not None:
                return found
        return None if span.thread == self.main else self._around[self.main].at(span.start)


class _Track:
    """Disjoint pieces of time, each with a component."""

    def __init__(self, pieces: list[tuple[int, int, str]]) -> None:
        self._pieces = pieces
        self._starts = [piece[0] for piece in pieces]

    def at(self, moment: int) -> str | None:
        place = bisect_right(self._starts, moment) - 1
        if place >= 0 and moment < self._pieces[place][1]:
            return self._pieces[place][2]
        return None

    def within(self, whole: Interval) -> dict[str, list[Interval]]:
        """By component, what lies in an interval."""
        found: dict[str, list[Interval]] = defaultdict(list)
        place = max(0, bisect_right(self._starts, whole[0]) - 1)
        while place < len(self._pieces) and self._starts[place] < whole[1]:
            start, end, component = self._pieces[place]
            if end > whole[0]:
                found[component].append((max(start, whole[0]), min(end, whole[1])))
            place += 1
        return found


def _outermost(spans: Sequence[Span]) -> list[tuple[int, int, str]]:
    """Of nested spans (sorted by start, longest first) the outermost ones."""
    pieces: list[tuple[int, int, str]] = []
    until = -1
    for span in spans:
        start = max(span.start, until)
        if span.end > start and span.component is not None:
            pieces.append((start, span.end, span.component))
            until = span.end
    return pieces


def _steps(trace: Trace) -> list[tuple[int, Interval]]:
    if trace.steps:
        found = ((STEP.match(span.name), span) for span in trace.steps)
        return [(int(m[1]), (s.start, s.end)) for m, s in found if m is not None and s.end > s.start]
    spans = [*trace.ranges, *trace.collectives, *(span for span, _ in trace.device)]
    return [(0, (min(s.start for s in spans), max(s.end for s in spans)))] if spans else []


@dataclass(frozen=True)
class _Kernel:
    start: int
    end: int
    component: str


def _kernels(trace: Trace, host: _Host) -> tuple[list[_Kernel], dict[int, Interval]]:
    """What ran on a device and whose it is; and for each collective, by its place, when its kernels ran."""
    starts = [call.start for call in trace.collectives]
    kernels: list[_Kernel] = []
    of_collectives: dict[int, Interval] = {}
    for span, correlation in trace.device:
        launch = trace.launches.get(correlation) if correlation is not None else None
        if launch is None or span.end <= span.start:
            continue
        component = host.component_of(launch)
        if component is not None:
            kernels.append(_Kernel(span.start, span.end, component))
        place = bisect_right(starts, launch.start) - 1
        if place >= 0 and "nccl" in span.name.lower():
            call = trace.collectives[place]
            if launch.start < call.end and launch.thread == call.thread:
                start, end = of_collectives.get(place, (span.start, span.end))
                of_collectives[place] = (min(start, span.start), max(end, span.end))
    kernels.sort(key=lambda kernel: kernel.start)
    return kernels, of_collectives


def _step(
    number: int,
    whole: Interval,
    host: _Host,
    kernels: Iterable[_Kernel],
    collectives: Sequence[Collective],
) -> StepTimes:
    on_device: dict[str, list[Interval]] = defaultdict(list)
    for kernel in kernels:
        if kernel.start >= whole[1]:
            break
        if kernel.end > whole[0]:
            on_device[kernel.component].append((max(kernel.start, whole[0]), min(kernel.end, whole[1])))
    ran = {component: union(times) for component, times in on_device.items()}
    in_flight: dict[str, list[Interval]] = defaultdict(list)
    for collective in collectives:
        in_flight[collective.component].append((collective.start, min(collective.end, whole[1])))

    exposed: dict[str, list[Interval]] = defaultdict(list)
    left = [whole]
    for component in sorted(ran, key=lambda c: (c in COMMUNICATION, COMPONENTS.index(c))):
        exposed[component] = intersection(ran[component], left)
        left = difference(left, ran[component])
    moments: dict[str, list[Interval]] = defaultdict(list)
    free = [whole]
    for track in host.order:
        within = track.within(whole)
        for component, times in within.items():
            moments[component] += intersection(times, free)
        free = difference(free, union(part for times in within.values() for part in times))
    for component, times in moments.items():
        exposed[component] = union([*exposed[component], *intersection(union(times), left)])
    names = exposed.keys() | ran.keys() | in_flight.keys()
    busy = {
        name: union(_together(moments.get(name, ()), ran.get(name, ()), in_flight.get(name, ())))
        for name in names
    }
    return StepTimes(number, whole, {n: exposed.get(n, []) for n in names}, busy, tuple(collectives))


def _together(*parts: Iterable[Interval]) -> list[Interval]:
    return [interval for part in parts for interval in part]
