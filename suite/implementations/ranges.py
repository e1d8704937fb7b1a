"""How TorchRec, FBGEMM, PyTorch and the reference implementation name what makes up a component."""

from __future__ import annotations

from collections.abc import Mapping

#: What the autograd engine puts around a node, its hooks included.
_EVALUATE = "autograd::engine::evaluate_function: "


def _backward_of(*functions: str) -> tuple[str, ...]:
    """The ranges of the backward of autograd functions."""
    return tuple(f"{around}{function}Backward" for function in functions for around in ("", _EVALUATE))


#: Prefixes of the profiler ranges by component: those that TorchRec and FBGEMM emit, and those of
#: ``reference_impl.ranges``. Ranges may nest; ``profiles/breakdown.py`` says which one counts.
TORCHREC_RANGES: Mapping[str, tuple[str, ...]] = {
    "input_dist": (
        "[splits_dist]",
        "[input_dist]",
        "## KJTListSplitsAwaitable wait() ##",
        "## KJTSplitsAllToAllMeta",
        "## all2all_data:kjt",
        "## KJTListAwaitable wait() ##",
    ),
    "lookup": ("[lookup]",),
    "output_dist": (
        "[output_dist]",
        "[output_dist_wait]",
        "## EmbeddingBagCollectionAwaitable wait() ##",
    ),
    "dense_forward": ("## dense_forward ##", "DistributedDataParallel.forward"),
    "dense_backward": ("## dense_backward ##",),
    "dense_all_reduce": ("## dense_all_reduce", "c10d::allreduce_"),
    "output_dist_backward": _backward_of(
        "All2All_Pooled_Wait",  # table-wise and column-wise
        "All2All_Pooled_Req",
        "ReduceScatterBase_Wait",  # row-wise
        "ReduceScatterBase_Req",
        "ReduceScatter_Wait",
        "ReduceScatter_Req",
        "ReduceScatterV_Wait",
        "ReduceScatterV_Req",
        "Variable_Batch_All2All_Pooled_Wait",  # batches of unlike sizes
        "Variable_Batch_All2All_Pooled_Req",
    ),
    "lookup_backward_optimizer": (
        "fbgemm::split_embedding_backward_codegen",
        "torch::autograd::CppNode<SplitLookupFunction",
        f"{_EVALUATE}torch::autograd::CppNode<SplitLookupFunction",
    ),
    "dense_optimizer": ("## dense_optimizer ##", "Optimizer.step#", "Optimizer.zero_grad#"),
    "replica_sync": ("## replica_sync ##",),
}
