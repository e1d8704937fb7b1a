"""Ranks side by side: when the last of a group arrived in each collective, and what waiting that makes.

A collective cannot carry anything before the last rank of its group has arrived. So its time on a rank is
cut there: before it the rank waits, after it data are transferred. The k-th collective of a component in a
step is the same one on all ranks of the group, since all issue the same ones in the same order; where they
did not, nothing is said.

Arrivals are compared between the clocks of several processes. On one host that is one clock: the profiler
converts its counter to wall time in every process, good to some microseconds. Between hosts the clocks'
offset is estimated from the steps: all ranks leave a barrier just before a step, so the median difference of
a host's step starts to the first host's, over the steps, is taken as its offset. That is good to the time by
which ranks leave a barrier one after the other (a network round trip); shorter waits mean nothing.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from profiles.breakdown import StepTimes
from profiles.intervals import Interval, difference, intersection, length, union
from suite.components import COMMUNICATION, COMPONENTS
from suite.record import ComponentSample, ProfiledStep

Clock = Literal["one_host", "aligned_steps"]


@dataclass(frozen=True)
class Arrival:
    """When a rank arrived in a collective, and in which."""

    component: str
    operator: str
    start: int


@dataclass(frozen=True)
class Arrivals:
    """What a rank tells the others: its host, and by step number when it began and when it arrived where."""

    host: str
    starts: Mapping[int, int]
    collectives: Mapping[int, tuple[Arrival, ...]]


def arrivals(steps: Sequence[StepTimes], host: str) -> Arrivals:
    """What one rank tells the others."""
    return Arrivals(
        host,
        {step.number: step.whole[0] for step in steps},
        {
            step.number: tuple(Arrival(c.component, c.operator, c.start) for c in step.collectives)
            for step in steps
        },
    )


def offsets(ranks: Mapping[int, Arrivals]) -> tuple[dict[int, int], Clock]:
    """Nanoseconds to subtract from each rank's clock, and how they were found."""
    hosts = {told.host for told in ranks.values()}
    if len(hosts) <= 1:
        return dict.fromkeys(ranks, 0), "one_host"
    reference = ranks[min(ranks)]
    of_host = {}
    for host in hosts:
        differences = [
            told.starts[number] - reference.starts[number]
            for told in ranks.values()
            if told.host == host
            for number in told.starts.keys() & reference.starts.keys()
        ]
        own = host == reference.host or not differences
        of_host[host] = 0 if own else round(statistics.median(differences))
    return {rank: of_host[told.host] for rank, told in ranks.items()}, "aligned_steps"


def samples(
    steps: Sequence[StepTimes], rank: int | None, ranks: Mapping[int, Arrivals]
) -> list[ProfiledStep]:
    """One rank's steps as the record holds them.

    Args:
        steps: of this rank.
        rank: which one it is.
        ranks: what every rank tells, this one included; those that are missing make waits unknown.
    """
    shift, _ = offsets(ranks)
    return [_sample(step, rank, ranks, shift) for step in steps]


def _sample(
    step: StepTimes, rank: int | None, ranks: Mapping[int, Arrivals], shift: Mapping[int, int]
) -> ProfiledStep:
    found: dict[str, ComponentSample] = {}
    own: dict[str, list[int]] = defaultdict(list)
    for place, collective in enumerate(step.collectives):
        own[collective.component].append(place)
    for component in COMPONENTS[:-1]:
        exposed = step.exposed.get(component, [])
        sample = ComponentSample(
            busy_ms=_ms(length(step.busy.get(component, []))), exposed_ms=_ms(length(exposed))
        )
        if component in COMMUNICATION:
            calls = [step.collectives[place] for place in own[component]]
            flights = union((c.start, min(c.end, step.whole[1])) for c in calls)
            waiting = _waiting(step, component, rank, ranks, shift)
            sent, wired = [c.bytes for c in calls], [c.wire_bytes for c in calls]
            # The sum of unknowns is unknown.
            sample = sample.model_copy(
                update={
                    "calls": len(calls),
                    "bytes": sum(s for s in sent if s is not None) if None not in sent else None,
                    "wire_bytes": sum(w for w in wired if w is not None) if None not in wired else None,
                }
            )
            if waiting is not None:
                transferring = intersection(difference(flights, waiting), exposed)
                sample = sample.model_copy(
                    update={
                        "wait_ms": _ms(length(intersection(waiting, exposed))),
                        "transfer_ms": _ms(length(transferring)),
                    }
                )
        found[component] = sample
    other = _ms(step.other)
    found["other"] = ComponentSample(busy_ms=other, exposed_ms=other)
    return ProfiledStep(step_ms=_ms(step.whole[1] - step.whole[0]), components=found)


def _waiting(
    step: StepTimes,
    component: str,
    rank: int | None,
    ranks: Mapping[int, Arrivals],
    shift: Mapping[int, int],
) -> list[Interval] | None:
    """When this rank was in a collective of the component that its group had not entered; None if unknown."""
    calls = [c for c in step.collectives if c.component == component]
    if any(c.ranks is None for c in calls):
        return None
    parts = []
    for k, call in enumerate(calls):
        assert call.ranks is not None
        if call.ranks == (rank,) or len(call.ranks) == 1:
            continue
        last = call.start
        for member in call.ranks:
            if member == rank:
                continue
            told = ranks[member].collectives.get(step.number) if member in ranks else None
            theirs = [a for a in told if a.component == component] if told is not None else []
            if [a.operator for a in theirs] != [c.operator for c in calls]:
                return None
            mine = shift.get(rank, 0) if rank is not None else 0
            last = max(last, theirs[k].start - shift[member] + mine)
        parts.append((call.start, min(last, call.end)))
    return union(parts)


def _ms(nanoseconds: int) -> float:
    return nanoseconds / 1e6
