"""The collectives of a trace: when each was in flight, what it sent, and in which group."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from profiles.trace import Span, Trace
from suite.components import COMMUNICATION
from suite.payload import RULES, Call

#: Bytes of an element, by the names that the profiler (C++ types) and NCCL's process group have.
_SIZES: Mapping[str, int] = {
    "float": 4, "double": 8, "long int": 8, "long": 8, "int": 4, "short int": 2, "short": 2,
    "unsigned char": 1, "signed char": 1, "bool": 1, "byte": 1, "char": 1,
    "c10::half": 2, "half": 2, "c10::bfloat16": 2, "bfloat16": 2,
}  # fmt: skip
#: Operators whose first argument is what they send; of the others it is the second, after the output.
_IN_PLACE = frozenset({"allreduce_", "allreduce_coalesced_", "broadcast_", "reduce_", "send", "recv_"})
_ROOT_AT: Mapping[str, int] = {"broadcast_": 2, "scatter_": 3, "gather_": 3, "reduce_": 3}
_SPLITS_AT = 4  # of alltoall_base_(output, input, group, output splits, input splits, ...)


#: What gloo calls the work of a kind of collective, where the name differs.
_WORKS: Mapping[str, tuple[str, ...]] = {"reduce_scatter": ("reduce_scatter", "all_reduce")}


@dataclass(frozen=True)
class Collective:
    """One collective on one rank.

    Attributes:
        component: whose it is.
        operator: of the ``c10d`` namespace.
        start, end: nanoseconds, from this rank's arrival to the collective's end here. With gloo a rank
            arrives when it issues the collective, on a GPU when the kernel starts.
        bytes, wire_bytes: as ``suite/payload.py`` defines them; None where the trace does not tell.
        ranks: the group; None where the trace does not tell.
    """

    component: str
    operator: str
    start: int
    end: int
    bytes: int | None
    wire_bytes: int | None
    ranks: tuple[int, ...] | None


def find(
    trace: Trace, component_at: Callable[[Span], str | None], kernels: Mapping[int, tuple[int, int]]
) -> list[Collective]:
    """The collectives that belong to a component, in the order in which they were issued.

    Args:
        trace: of one rank.
        component_at: the component of a host span.
        kernels: by the place of a collective in ``trace.collectives``, when the kernels it launched ran.
    """
    flights = _Flights(trace.in_flight)
    described = [span.start for span in trace.described]
    found = []
    for place, call in enumerate(trace.collectives):
        operator = call.name.removeprefix("c10d::")
        if operator not in RULES:
            continue
        flight = flights.of(call, RULES[operator][0])
        component = component_at(call)
        if component is None or component not in COMMUNICATION:
            continue
        at = bisect_left(described, call.start)
        told = at < len(described) and described[at] <= call.end
        details = trace.described[at].decoded() if told else {}
        ranks = _ranks(trace, component, details)
        sent = _sent(operator, call.decoded(), {} if flight is None else flight.decoded(), details)
        start, end = kernels.get(place, (call.start, call.end if flight is None else flight.end))
        payload = wire = None
        if sent is not None:
            rule = RULES[operator][1]
            placed = ranks is not None and trace.rank in ranks
            members = ranks if placed else (0,)
            me = members.index(trace.rank) if placed and members and trace.rank is not None else 0
            assert members is not None
            payload, wire = rule(Call(**sent, n=len(members), me=me))
            if not placed:
                wire = None
        found.append(Collective(component, operator, start, end, payload, wire, ranks))
    return found


class _Flights:
    """gloo's works. They carry no mark of the call that issued them, but works of one kind begin in the order
    of the calls, on gloo's threads, some time after the call."""

    def __init__(self, spans: list[Span]) -> None:
        self._waiting: dict[str, deque[Span]] = defaultdict(deque)
        for span in spans:
            self._waiting[span.name.removeprefix("gloo:")].append(span)

    def of(self, call: Span, kind: str) -> Span | None:
        """The work of a call; calls are asked for in order."""
        # Where gloo has no reduce-scatter of its own it reduces on all ranks.
        works = next((w for w in map(self._waiting.get, _WORKS.get(kind, (kind,))) if w), None)
        while works and works[0].start < call.start:  # of calls from before the trace
            works.popleft()
        return works.popleft() if works else None


def _ranks(trace: Trace, component: str, details: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The group of a component's collectives: by the suite's metadata, by NCCL, or the only one there is."""
    named = trace.metadata.get("groups", {}).get(COMMUNICATION[component])  # type: ignore[index]
    if named is not None:
        return tuple(named)
    told = _whole_numbers(details.get("Process Group Ranks"))
    if told:
        return told
    if trace.world_size == 1 and trace.rank is not None:
        return (trace.rank,)
    different = set(trace.groups)
    return next(iter(different)) if len(different) == 1 else None


def _sent(
    operator: str, call: Mapping[str, Any], flight: Mapping[str, Any], details: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The sizes in a call's arguments; None where the trace was taken without shapes."""
    dims, types = call.get("Input Dims"), call.get("Input type")
    values = call.get("Concrete Inputs")
    position = 0 if operator in _IN_PLACE else 1
    if not dims or not types or not values or len(dims) <= position:
        return _described(details)
    # A list of tensors has no element type here; the work that carries it out, or NCCL's group, tells it.
    element = next(
        (
            _SIZES[name]
            for name in (
                str(types[position]).lower(),
                *(str(t).lower() for t in flight.get("Input type", ())[:1]),
                str(details.get("dtype", "")).lower(),
            )
            if name in _SIZES
        ),
        None,
    )
    tensors = [dims[position]] if types[position] != "TensorList" else dims[position]
    if element is None or not all(_is_shape(shape) for shape in tensors):
        return _described(details)
    received = [] if position == 0 else [dims[0]] if types[0] != "TensorList" else dims[0]
    splits = _whole_numbers(values[_SPLITS_AT]) if operator == "alltoall_base_" else ()
    root = _ROOT_AT.get(operator)
    return {
        "sent": tuple(_elements(shape) * element for shape in tensors),
        "received": tuple(_elements(shape) * element for shape in received if _is_shape(shape)),
        "rows": tensors[0][0] if tensors and tensors[0] else 0,
        "splits": splits or (),
        "root": None if root is None else int(values[root] or 0),
    }


def _described(details: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same by NCCL's process group, which tells element counts whether or not shapes are recorded."""
    element = _SIZES.get(str(details.get("dtype", "")).lower())
    if element is None or not isinstance(details.get("In msg nelems"), int):
        return None
    splits = _whole_numbers(details.get("In split size")) or ()
    received = details.get("Out msg nelems")
    return {
        "sent": (details["In msg nelems"] * element,),
        "received": (received * element if isinstance(received, int) else 0,),
        "rows": sum(splits),
        "splits": splits,
    }


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(size, int) for size in value)


def _elements(shape: list[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def _whole_numbers(text: Any) -> tuple[int, ...] | None:
    """``"[0, 1]"`` as numbers; None where it is not such a list, for example cut off."""
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    return tuple(found) if isinstance(found, list) and all(isinstance(x, int) for x in found) else None
