"""Counts a step's collectives: calls, payload and wire bytes, by process group.

Every collective of torch.distributed goes through PyTorch's dispatcher as an operator of the ``c10d``
namespace, also those that DDP's reducer issues from C++ during backward. A dispatch mode sees them all,
with their tensors, before they run.

``suite/payload.py`` says what each sends. A coalesced call is one call. Exchanges of split sizes are
all_to_all calls and count as such.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from reference_impl.layout import RankLayout
from suite.components import GroupName
from suite.payload import RULES, Call
from suite.record import CollectiveCount


class GroupNames:
    """Names a process group by the ranks in it, as one rank sees it.

    A group takes the name of the smallest of these that holds all its ranks: ``world`` (all T ranks),
    ``sharding`` (this rank's sharding group), ``replica`` (its replica set); where two are equal, the one
    named first. So in 1D (M = 1) the sharding group is ``world``. Where each group is one rank (N = 1) the
    replica set is the world too, and a group over all T ranks is ``replica`` unless it is the default group.
    """

    def __init__(self, layout: RankLayout, rank: int) -> None:
        self._world = frozenset(range(layout.world_size))
        self._replica = frozenset(layout.replica_set(layout.index_in_group(rank)))
        sharding = frozenset(layout.sharding_group(layout.group_of(rank)))
        self._named: tuple[tuple[GroupName, frozenset[int]], ...] = (
            ("world", self._world),
            ("sharding", sharding),
            ("replica", self._replica),
        )

    def members(self) -> dict[GroupName, tuple[int, ...]]:
        """The global ranks of each group, in the order of their places in it."""
        return {name: tuple(sorted(ranks)) for name, ranks in self._named}

    def name(self, ranks: Iterable[int], is_default: bool) -> GroupName:
        """The name of the group of these global ranks."""
        found = frozenset(ranks)
        if found == self._world == self._replica and len(found) > 1 and not is_default:
            return "replica"
        return min(((n, r) for n, r in self._named if found <= r), key=lambda named: len(named[1]))[0]

    def of(self, group: dist.ProcessGroup) -> GroupName:
        """The name of a process group."""
        world = dist.group.WORLD
        is_default = world is not None and group.group_name == world.group_name
        return self.name(dist.get_process_group_ranks(group), is_default)


class CollectiveCounter(TorchDispatchMode):
    """Counts the collectives that this rank issues while the context is open.

    Counting is of this thread and of the backward passes it starts.

    Raises:
        NotImplementedError: a functional collective (``torch.distributed._functional_collectives``) is
            issued; left uncounted, the record would be wrong.
    """

    def __init__(self, groups: GroupNames) -> None:
        super().__init__()
        self._groups = groups
        self._totals: dict[tuple[str, GroupName], list[int]] = defaultdict(lambda: [0, 0, 0])

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Counts what is a collective and runs everything unchanged."""
        if func.namespace == "c10d":
            self._count(func, args, kwargs or {})
        elif func.namespace == "_c10d_functional":
            raise NotImplementedError(f"The collective {func} is not counted: use torch.distributed's own.")
        return func(*args, **(kwargs or {}))

    def counts(self) -> tuple[CollectiveCount, ...]:
        """What was counted, by name and group."""
        return tuple(
            CollectiveCount(name=name, group=group, calls=calls, bytes=payload, wire_bytes=wire)
            for (name, group), (calls, payload, wire) in sorted(self._totals.items())
        )

    def _count(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        operator = func._schema.name.removeprefix("c10d::")
        if operator not in RULES:  # not a collective, for example a check for NaN
            return
        parameters = (argument.name for argument in func._schema.arguments)
        arguments = dict(zip(parameters, args, strict=False)) | kwargs
        group = dist.ProcessGroup.unbox(arguments["process_group"])
        name, rule = RULES[operator]
        payload, wire = rule(_call(arguments, group))
        total = self._totals[name, self._groups.of(group)]
        for i, addition in enumerate((1, payload, wire)):
            total[i] += addition


_SENT = ("input", "input_tensor", "input_tensors", "inputs", "input_list", "tensors")
_RECEIVED = ("output_tensor", "output_tensors", "outputs", "output")


def _call(arguments: Mapping[str, Any], group: dist.ProcessGroup) -> Call:
    """The sizes of one call, from an operator's arguments by name."""
    sent = _tensors(next((arguments[name] for name in _SENT if name in arguments), ()))
    received = _tensors(next((arguments[name] for name in _RECEIVED if name in arguments), ()))
    return Call(
        sent=tuple(tensor.nbytes for tensor in sent),
        received=tuple(tensor.nbytes for tensor in received),
        n=group.size(),
        me=group.rank(),
        rows=sent[0].shape[0] if sent and sent[0].dim() else 0,
        splits=tuple(arguments.get("input_split_sizes", ())),
        root=arguments.get("root_rank"),
    )


def _tensors(given: Any) -> list[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        return [given]
    return [tensor for part in given for tensor in _tensors(part)]
