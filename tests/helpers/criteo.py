"""Files in Criteo's format, and what a plain reader makes of them, a line at a time."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    label: int
    numbers: list[int]
    categories: list[int]


def write_criteo(path: Path, samples: int, seed: int = 0, repeat: int = 1) -> None:
    """``samples`` random lines, ``repeat`` times: missing fields, negative and long numbers."""
    draw = random.Random(seed)
    lines = []
    for _ in range(samples):
        numbers = [draw.choice([-2, 0, 5, 1_234, 99_999_999, 2_147_483_647]) for _ in range(13)]
        # Few distinct values, so that some come often; 0 is a value as well.
        categories = [draw.choice([draw.randrange(20), draw.randrange(2**32)]) for _ in range(26)]
        fields = [*map(str, numbers), *(f"{value:08x}" for value in categories)]
        shown = ["" if draw.random() < 0.15 else field for field in fields]
        lines.append("\t".join([str(draw.randrange(2)), *shown]) + "\n")
    text = "".join(lines)
    with path.open("w", newline="") as file:
        for _ in range(repeat):
            file.write(text)


def read_criteo(path: Path) -> list[Line]:
    found = []
    for line in path.read_text().split("\n")[:-1]:
        label, *fields = line.split("\t")
        numbers = [int(field or "0") for field in fields[:13]]
        categories = [int(field or "0", 16) for field in fields[13:]]
        found.append(Line(int(label), numbers, categories))
    return found
