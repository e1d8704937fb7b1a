"""The components of a training step: their names, what they are rolled up into, and who communicates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Component = Literal[
    "input_dist",
    "lookup",
    "output_dist",
    "dense_forward",
    "dense_backward",
    "dense_all_reduce",
    "output_dist_backward",
    "lookup_backward_optimizer",
    "dense_optimizer",
    "replica_sync",
    "other",
]
GroupName = Literal["world", "sharding", "replica"]

#: In the order of a step. ``other`` is step time that no component accounts for.
COMPONENTS: tuple[Component, ...] = get_args(Component)

#: The components that communicate, and the process group that each does it in.
COMMUNICATION: Mapping[Component, GroupName] = {
    "input_dist": "sharding",
    "output_dist": "sharding",
    "dense_all_reduce": "world",
    "output_dist_backward": "sharding",
    "replica_sync": "replica",
}

#: Sums of components.
ROLLUPS: Mapping[str, tuple[Component, ...]] = {
    "lookup": ("lookup",),
    "all_to_all": ("input_dist", "output_dist", "output_dist_backward"),
    "optimizer": ("lookup_backward_optimizer", "dense_optimizer"),
    "replica_sync": ("replica_sync",),
}
