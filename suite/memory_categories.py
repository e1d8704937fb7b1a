"""The categories of memory: what a byte that a rank's allocator has handed out is there for.

``docs/memory.md`` says what belongs to each. At any moment they add up to what is allocated.
"""

from __future__ import annotations

from typing import Literal, get_args

Category = Literal[
    "embedding_weights",
    "embedding_optimizer_state",
    "dense_parameters",
    "dense_optimizer_state",
    "gradients",
    "activations",
    "communication_buffers",
    "other",
]

CATEGORIES: tuple[Category, ...] = get_args(Category)

#: Those that last from step to step; an implementation says how large they are (``parameter_bytes``).
LASTING: tuple[Category, ...] = CATEGORIES[:4]

#: Those that come and go in a step.
PASSING: tuple[Category, ...] = CATEGORIES[4:]

#: What is not a category, but a total: of the allocator, and of the process.
TOTALS = ("allocated_peak", "reserved_peak", "process")
