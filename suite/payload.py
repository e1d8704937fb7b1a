"""What a collective sends: payload and wire bytes, from the sizes of its tensors.

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One call on one rank.

    Attributes:
        sent: bytes of each tensor handed in, nested lists flattened.
        received: bytes of each output tensor.
        rows: length of dimension 0 of the first tensor handed in.
        splits: of those rows, how many go to each rank; empty: equal shares.
        n: ranks in the group.
        me: this rank's place in the group.
        root: the root's place; None where there is none.
    """

    sent: tuple[int, ...]
    received: tuple[int, ...]
    n: int
    me: int
    rows: int = 0
    splits: tuple[int, ...] = ()
    root: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the tensors handed in."""
        return sum(self.sent)


def _all_to_all_single(call: Call) -> tuple[int, int]:
    if not call.splits:
        return call.size, call.size - call.size // call.n
    own_rows = call.splits[call.me]
    return call.size, call.size - (call.size // call.rows * own_rows if own_rows else 0)


def _all_to_all_list(call: Call) -> tuple[int, int]:
    return call.size, call.size - call.sent[call.me]


def _reduce_scatter(call: Call) -> tuple[int, int]:
    # Chunks may differ in size; this rank's own is as large as its output.
    return call.size, call.size - sum(call.received)


def _to_every_rank(call: Call) -> tuple[int, int]:
    return call.n * call.size, (call.n - 1) * call.size


def _broadcast(call: Call) -> tuple[int, int]:
    return _to_every_rank(call) if call.root == call.me else (0, 0)


def _scatter(call: Call) -> tuple[int, int]:
    return (call.size, call.size - call.size // call.n) if call.root == call.me else (0, 0)


def _to_root(call: Call) -> tuple[int, int]:
    return call.size, 0 if call.root == call.me else call.size


def _all_reduce(call: Call) -> tuple[int, int]:
    return call.size, call.size if call.n > 1 else 0


def _all_sent(call: Call) -> tuple[int, int]:
    return call.size, call.size


def _nothing_sent(_: Call) -> tuple[int, int]:
    return 0, 0


#: By operator of the c10d namespace: the collective's name in the record, and its bytes and wire bytes.
RULES: Mapping[str, tuple[str, Callable[[Call], tuple[int, int]]]] = {
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
