"""Counts a step's collectives: calls, payload and wire bytes, by process group.

Every collective of torch.distributed goes through PyTorch's dispatcher as an operator of the ``c10d``
namespace, also those that DDP's reducer issues from C++ during backward. A dispatch mode sees them all,
with their tensors, before they run.

n ranks are in the group. ``bytes`` is the payload this rank sends, ``wire_bytes`` the same without what
it sends to itself:

| collective | bytes | wire_bytes |
| --- | --- | --- |
| all_to_all | the input | the input without the split addressed to itself |
| reduce_scatter | the input | the input without the chunk this rank ends up with |
| all_gather | n times the input: one copy for each rank | n - 1 times the input |
| broadcast, at the root | n times the tensor | n - 1 times the tensor |
| scatter, at the root | all chunks | all but its own |
| gather | the input | the input; 0 at the root |
| all_reduce | the tensor, once | the tensor, once; 0 where n = 1 |
| reduce | the tensor, once | the tensor; 0 at the root |
| send | the tensor | the tensor |
| barrier, recv, and a non-root's broadcast and scatter | 0 | 0 |

The definitions do not depend on the algorithm. A reduction counts its tensor once, although a ring
all-reduce moves it up to twice: 2 * (n - 1) / n of it. A coalesced call is one call. Exchanges of split
sizes are all_to_all calls and count as such.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from reference_impl.layout import RankLayout
from suite.record import CollectiveCount

GroupName = Literal["world", "sharding", "replica"]


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
        if operator not in _RULES:  # not a collective, for example a check for NaN
            return
        parameters = (argument.name for argument in func._schema.arguments)
        call = dict(zip(parameters, args, strict=False)) | kwargs
        group = dist.ProcessGroup.unbox(call["process_group"])
        name, rule = _RULES[operator]
        payload, wire = rule(_Call(call, group.size(), group.rank()))
        total = self._totals[name, self._groups.of(group)]
        for i, addition in enumerate((1, payload, wire)):
            total[i] += addition


@dataclass(frozen=True)
class _Call:
    """One call: the operator's arguments by name, n, and this rank's place in the group."""

    arguments: Mapping[str, Any]
    n: int
    me: int

    @property
    def sent(self) -> list[Any]:
        """The tensors handed in, in whatever form the operator takes them; one list of n stays nested."""
        for name in ("input", "input_tensor", "input_tensors", "inputs", "input_list", "tensors"):
            if name in self.arguments:
                found = self.arguments[name]
                return [found] if isinstance(found, torch.Tensor) else list(found)
        raise KeyError("no input tensor")

    @property
    def size(self) -> int:
        """Bytes of the tensors handed in."""
        return _nbytes(self.sent)

    @property
    def is_root(self) -> bool:
        return bool(self.arguments["root_rank"] == self.me)


def _nbytes(tensors: Any) -> int:
    if isinstance(tensors, torch.Tensor):
        return tensors.numel() * tensors.element_size()
    return sum(_nbytes(t) for t in tensors)


def _all_to_all_single(call: _Call) -> tuple[int, int]:
    tensor = call.sent[0]
    splits = call.arguments["input_split_sizes"]  # rows of dimension 0; empty: equal shares
    if not splits:
        return call.size, call.size - call.size // call.n
    own_rows = splits[call.me]
    return call.size, call.size - (call.size // tensor.shape[0] * own_rows if own_rows else 0)


def _all_to_all_list(call: _Call) -> tuple[int, int]:
    return call.size, call.size - _nbytes(call.sent[call.me])


def _reduce_scatter(call: _Call) -> tuple[int, int]:
    # Chunks may differ in size; this rank's own is as large as its output.
    outputs = ("output_tensor", "output_tensors", "outputs")
    own = next(_nbytes(call.arguments[name]) for name in outputs if name in call.arguments)
    return call.size, call.size - own


def _to_every_rank(call: _Call) -> tuple[int, int]:
    return call.n * call.size, (call.n - 1) * call.size


def _broadcast(call: _Call) -> tuple[int, int]:
    return _to_every_rank(call) if call.is_root else (0, 0)


def _scatter(call: _Call) -> tuple[int, int]:
    return (call.size, call.size - call.size // call.n) if call.is_root else (0, 0)


def _to_root(call: _Call) -> tuple[int, int]:
    return call.size, 0 if call.is_root else call.size


def _all_reduce(call: _Call) -> tuple[int, int]:
    return call.size, call.size if call.n > 1 else 0


def _all_sent(call: _Call) -> tuple[int, int]:
    return call.size, call.size


def _nothing_sent(_: _Call) -> tuple[int, int]:
    return 0, 0


#: By operator of the c10d namespace: the collective's name in the record, and its bytes and wire bytes.
_RULES: Mapping[str, tuple[str, Callable[[_Call], tuple[int, int]]]] = {
    "alltoall_base_": ("all_to_all", _all_to_all_single),
    "alltoall_": ("all_to_all", _all_to_all_list),
    "allreduce_": ("all_reduce", _all_reduce),
    "allreduce_coalesced_": ("all_reduce", _all_reduce),
    "_reduce_scatter_base_": ("reduce_scatter", _reduce_scatter),
    "reduce_scatter_": ("reduce_scatter", _reduce_scatter),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", _reduce_scatter),
    "_allgather_base_": ("all_gather", _to_every_rank),
    "allgather_": ("all_gather", _to_every_rank),
    "allgather_coalesced_": ("all_gather", _to_every_rank),
    "allgather_into_tensor_coalesced_": ("all_gather", _to_every_rank),
    "broadcast_": ("broadcast", _broadcast),
    "scatter_": ("scatter", _scatter),
    "gather_": ("gather", _to_root),
    "reduce_": ("reduce", _to_root),
    "send": ("send", _all_sent),
    "recv_": ("recv", _nothing_sent),
    "recv_any_source_": ("recv", _nothing_sent),
    "barrier": ("barrier", _nothing_sent),
    "monitored_barrier_": ("barrier", _nothing_sent),
}
