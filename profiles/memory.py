"""What a step's memory is there for, from allocator events. The suite loads ``MemoryCapture`` by its name.

``torch.profiler`` reports every call of the allocator of a device, CPU or CUDA alike, with address and size,
and inside which operators and ranges it was made. What was allocated before is found by what is still there
after the steps: what the implementation says it holds (``Implementation.held_tensors``), what Python reaches
besides, and on CUDA whatever else the allocator counts.

Not seen: memory that does not come from PyTorch's allocator (gloo's and NCCL's own buffers, the CUDA context,
numpy's arrays, Python itself), and on a CPU blocks that only C++ holds and that are older than the pass.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from profiles.allocations import Event, Marks, account, blocks, category_of
from profiles.breakdown import AROUND
from profiles.trace import component_of
from suite.implementation import Implementation
from suite.memory_categories import LASTING, Category
from suite.record import MemoryProfile

_STEP = "MemoryStep#"
#: Ranges of collectives on threads of their own, where no component's range is.
_COLLECTIVES = ("gloo:", "nccl:", "c10d::")
_AUTOGRAD = "autograd::engine::evaluate_function"


class MemoryCapture:
    """``torch.profiler`` with memory over a few steps of one rank.

    Use as a context around the steps, with ``step`` around each; then ``record``. The first step and the last
    are taken, and not looked at: in the first the blocks of the step before end unseen, and after the
    last nothing shows what had ended in it.

    Args:
        device: where the rank trains.
        implementation: says what it holds, and what its components' ranges are.
        sync_interval: steps from one replica sync to the next; whole intervals must be taken.
    """

    extra_steps: ClassVar[int] = 2

    def __init__(self, device: torch.device, implementation: Implementation, sync_interval: int = 1) -> None:
        self._device = device
        self._sync_interval = sync_interval
        self._implementation = implementation
        activities = [ProfilerActivity.CPU]
        if device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        self._profiler = profile(activities=activities, profile_memory=True)
        #: After each step, what lasts, by address.
        self._held: list[Mapping[int, Category]] = []

    def __enter__(self) -> MemoryCapture:
        self._profiler.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._profiler.__exit__(*raised)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Around one step."""
        with record_function(f"{_STEP}{number}"):
            yield
        self._held.append(self._held_now()[0])

    def _held_now(self) -> tuple[dict[int, Category], dict[int, int]]:
        """Categories and sizes of the storages that the implementation holds, by address."""
        categories: dict[int, Category] = {}
        sizes: dict[int, int] = {}
        for category, tensors in self._implementation.held_tensors().items():
            for tensor in tensors:
                storage = tensor.untyped_storage()
                if storage.nbytes():
                    categories.setdefault(storage.data_ptr(), category)
                    sizes[storage.data_ptr()] = storage.nbytes()
        return categories, sizes

    def record(self) -> MemoryProfile:
        """Adds up what was seen. Call it after the steps, outside of the context."""
        profiler = self._profiler.profiler
        assert profiler is not None  # the context has been left
        assert profiler.kineto_results is not None
        tree = profiler.kineto_results.experimental_event_tree()
        events, steps, marks = _read(tree, self._implementation.component_ranges(), self._device)
        ends = [end for _, end in steps]
        found, lost = blocks(events, list(zip(ends, self._held, strict=True)), ends, marks)
        at_end = {block.address: block.size for block in found if block.end is None}
        return account(found, lost, steps[1:-1], marks, self._before(at_end), self._sync_interval)

    def _before(self, at_end: Mapping[int, int]) -> dict[Category, int]:
        """Bytes by category that are older than the pass.

        Args:
            at_end: sizes by address of the blocks that are younger, and still there.
        """
        categories, sizes = self._held_now()
        before: dict[Category, int] = {}
        for address, category in categories.items():
            if address not in at_end:
                before[category] = before.get(category, 0) + sizes[address]
        # One that says nothing of a category's tensors still says how large it is.
        for category in LASTING:
            if category not in before and category not in categories.values():
                before[category] = self._implementation.parameter_bytes()[category]
        if self._device.type == "cuda":
            older = torch.cuda.memory_allocated(self._device) - sum(at_end.values())
        else:
            reached = _reached(self._device)
            older = sum(size for address, size in reached.items() if address not in at_end)
        before["other"] = max(0, older - sum(before.values()))
        return before


def _reached(device: torch.device) -> dict[int, int]:
    """Sizes by address of the storages on a device that Python's objects reach and PyTorch allocated."""
    found: dict[int, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated kinds of tensors, when they are looked at
        for thing in gc.get_objects():
            # Not isinstance, which asks the object: some are proxies that answer with a warning.
            if not issubclass(type(thing), torch.Tensor):
                continue
            try:
                if thing.device != device or thing.layout != torch.strided:
                    continue
                storage = thing.untyped_storage()
                # Memory that PyTorch only borrows, numpy's, cannot be resized.
                if storage.resizable() and storage.nbytes():
                    found[storage.data_ptr()] = storage.nbytes()
            except (RuntimeError, NotImplementedError):
                continue  # a wrapper around other tensors, or one without storage
    return found


def _read(
    tree: Sequence[Any], ranges: Mapping[str, tuple[str, ...]], device: torch.device
) -> tuple[list[Event], list[tuple[int, int]], Marks]:
    """The allocator's calls on a device, the steps, and which component the steps' thread is in.

    Args:
        tree: of the profiler: operators and ranges, and inside each what it called.
        ranges: of the components.
        device: the others are left out.
    """
    named = component_of(ranges)
    events: list[Event] = []
    steps: list[tuple[int, int]] = []
    marks: list[tuple[int, str | None]] = []
    # Of what is around a node: its component, whether that is settled (no pass, which gives way), what is
    # allocated there for, and whether it is in a step.
    waiting: list[tuple[Any, str | None, bool, Category, bool]] = [
        (root, None, False, "other", False) for root in tree
    ]
    while waiting:
        node, component, settled, category, in_step = waiting.pop()
        if node.tag.name == "Allocation":
            of = node.extra_fields
            if of.device.type == device.type and (device.index is None or of.device.index == device.index):
                events.append(Event(node.start_time_ns, of.ptr, of.alloc_size, category))
            continue
        name = node.name
        if name.startswith(_STEP):
            steps.append((node.start_time_ns, node.end_time_ns))
            in_step = True
        inside, own = component, None if settled else named(name)
        if own is not None and own not in AROUND:
            inside, settled = own, True
        elif own is not None and component is None:
            inside = own
        if inside != component:
            category = category_of(inside)
            if in_step:
                marks += [(node.start_time_ns, inside), (node.end_time_ns, component)]
        elif name.startswith(_COLLECTIVES):
            category = "communication_buffers"
        elif component is None and name.startswith(_AUTOGRAD):
            category = "gradients"
        waiting += [(child, inside, settled, category, in_step) for child in node.children]
    events.sort(key=lambda event: event.time)
    marks.sort(key=lambda mark: mark[0])
    return events, sorted(steps), Marks([t for t, _ in marks], [c for _, c in marks])
