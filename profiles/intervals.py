"""Sets of time: sorted, disjoint, half-open intervals of whole nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]
Intervals = Sequence[Interval]


def union(parts: Iterable[Interval]) -> list[Interval]:
    """Any intervals as a set; empty and negative ones hold no time."""
    found: list[Interval] = []
    for start, end in sorted(parts):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def intersection(a: Intervals, b: Intervals) -> list[Interval]:
    """The time that is in both."""
    found = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            found.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def difference(a: Intervals, b: Intervals) -> list[Interval]:
    """The time that is in ``a`` and not in ``b``."""
    found = []
    j = 0
    for start, end in a:
        while j < len(b) and b[j][1] <= start:
            j += 1
        k = j
        while k < len(b) and b[k][0] < end:
            if b[k][0] > start:
                found.append((start, b[k][0]))
            start = max(start, b[k][1])
            k += 1
        if start < end:
            found.append((start, end))
    return found


def length(a: Intervals) -> int:
    """Nanoseconds in a set."""
    return sum(end - start for start, end in a)
