"""From allocator events to bytes by category, at the peak of a step and component by component.

An allocation belongs to the component in whose range it was made, and that says what it is there for:

    made in                                          category
    a communication's range, or on its thread        communication_buffers
    the rest of the forward pass                     activations
    the rest of the backward pass                    gradients
    anything else: optimizers, between the steps     other

A block that turns out to hold something that lasts (a weight, a state, a parameter's gradient) belongs to
that, wherever it was made.

Which component is a moment's? The outermost range, and ``dense_forward`` and ``dense_backward`` give way to
what is inside them, as in ``profiles.breakdown``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from suite.components import COMMUNICATION
from suite.memory_categories import CATEGORIES, Category
from suite.record import MemoryProfile

#: Components whose allocations are there for something; of the others they are ``other``.
_FOR: Mapping[str, Category] = {
    "lookup": "activations",
    "dense_forward": "activations",
    "dense_backward": "gradients",
    "lookup_backward_optimizer": "gradients",
    **dict.fromkeys(COMMUNICATION, "communication_buffers"),
}


@dataclass(frozen=True)
class Event:
    """One call of the allocator.

    Attributes:
        time: nanoseconds.
        address: of the block.
        size: bytes of the block; negative where it is freed.
        category: what is allocated there is for.
    """

    time: int
    address: int
    size: int
    category: Category


@dataclass(frozen=True)
class Block:
    """A block from its allocation to its end; None where it outlives the events."""

    start: int
    end: int | None
    size: int
    category: Category
    address: int


@dataclass(frozen=True)
class Marks:
    """Which component the step is in: from ``times[i]`` on it is ``components[i]``, None for none."""

    times: Sequence[int]
    components: Sequence[str | None]

    def at(self, time: int) -> str:
        """The component of a moment; ``other`` where there is none."""
        place = bisect_right(self.times, time) - 1
        return (self.components[place] if place >= 0 else None) or "other"

    def left(self, component: str, start: int, end: int) -> int:
        """When the component was left for the last time between two moments; ``end`` where it was not."""
        first = max(0, bisect_right(self.times, start) - 1)
        last = bisect_right(self.times, end) - 1
        return max(
            (self.times[i + 1] for i in range(first, last) if self.components[i] == component), default=end
        )


def category_of(component: str | None) -> Category:
    """What an allocation made in a component's range is there for."""
    return _FOR.get(component or "", "other")


def blocks(
    events: Iterable[Event],
    held: Sequence[tuple[int, Mapping[int, Category]]],
    step_ends: Sequence[int],
    marks: Marks,
) -> tuple[list[Block], list[int]]:
    """Pairs allocations with their frees.

    A tensor that was handed to gloo may be freed on gloo's own thread, which the profiler does not see.
    Such a block shows when its address is handed out again, or because it outlives the step after its own;
    it is taken to end when its step leaves the component it was made in. Frees of blocks that were there
    before the events say nothing.

    Args:
        events: in the order of time.
        held: moments, and the addresses of what lasts as they were then.
        step_ends: when each step ended, in order.
        marks: of the thread that takes the steps.

    Returns:
        The blocks, and the starts of those whose free was not seen.
    """
    found: list[Block] = []
    lost: list[int] = []
    live: dict[int, Event] = {}

    def close(event: Event, end: int | None, seen: bool) -> None:
        lasting = next(
            (of[event.address] for t, of in held if _within(t, event, end) and event.address in of), None
        )
        own_end = next((t for t in step_ends if t >= event.time), None)
        if not seen and lasting is None and own_end is not None:
            lost.append(event.time)
            left = marks.left(marks.at(event.time), event.time, own_end)
            end = left if end is None else min(left, end)
        found.append(Block(event.time, end, event.size, lasting or event.category, event.address))

    for event in events:
        before = live.pop(event.address, None)
        if event.size > 0:
            if before is not None:
                close(before, event.time, seen=False)
            live[event.address] = event
        elif before is not None:
            close(before, event.time, seen=True)
    for event in live.values():
        # Of blocks of the last step it cannot be told whether they outlive the next.
        close(event, None, seen=sum(end >= event.time for end in step_ends) <= 1)
    found.sort(key=lambda block: block.start)
    return found, lost


def _within(time: int, event: Event, end: int | None) -> bool:
    return event.time <= time and (end is None or time < end)


def account(
    found: Sequence[Block],
    lost: Sequence[int],
    steps: Sequence[tuple[int, int]],
    marks: Marks,
    before: Mapping[Category, int],
    sync_interval: int = 1,
) -> MemoryProfile:
    """Adds blocks up, moment by moment, over the steps.

    Of the steps at one place between two syncs those are looked at in which the fewest frees were not seen.

    Args:
        found: blocks in the order of their start.
        lost: starts of the blocks whose free was not seen.
        steps: start and end of each.
        marks: of the thread that takes the steps.
        before: bytes that were there before the events and after them.
        sync_interval: steps from one replica sync to the next; ``steps`` are whole intervals.
    """
    unseen = [sum(start <= moment < end for moment in lost) for start, end in steps]
    fewest = [min(unseen[place::sync_interval]) for place in range(sync_interval)]
    looked_at = [step for i, step in enumerate(steps) if unseen[i] == fewest[i % sync_interval]]
    now: Counter[str] = Counter(before)
    changes = sorted(
        [(block.start, block.size, block.category) for block in found]
        + [(block.end, -block.size, block.category) for block in found if block.end is not None]
        # A step that allocates nothing has what it begins with.
        + [(start, 0, "other") for start, _ in looked_at]
    )
    moments: list[tuple[int, dict[str, int]]] = []
    for time, size, category in changes:
        now[category] += size
        if moments and moments[-1][0] == time:
            moments.pop()
        moments.append((time, {c: now[c] for c in CATEGORIES}))

    peaks: dict[str, dict[str, int]] = {}
    largest = dict.fromkeys(CATEGORIES, 0)
    for time, held in moments:
        if not any(start <= time < end for start, end in looked_at):
            continue
        component = marks.at(time)
        if component not in peaks or sum(held.values()) > sum(peaks[component].values()):
            peaks[component] = held
        for c in CATEGORIES:
            largest[c] = max(largest[c], held[c])
    at = max(peaks, key=lambda component: sum(peaks[component].values()))
    return MemoryProfile(
        at_peak=peaks[at],
        peak_component=at,
        largest=largest,
        by_component=peaks,
        steps=len(looked_at),
        unseen_frees=sum(fewest),
    )
