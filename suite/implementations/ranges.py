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
        "## KJTListSplitsAwaitable wait() ##",
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
        "All2All_Seq_Req_Wait",  # unpooled
        "All2All_Seq_Req",
    ),
    "lookup_backward_optimizer": (
        "fbgemm::split_embedding_backward_codegen",
        *(
            f"{around}torch::autograd::CppNode<Split{kind}LookupFunction"
            for kind in ("", "NoBag")  # pooled, unpooled
            for around in ("", _EVALUATE)
        ),
    ),
    "dense_optimizer": ("## dense_optimizer ##", "Optimizer.step#", "Optimizer.zero_grad#"),
    "replica_sync": ("## replica_sync ##",),
}

#: More names, for reading traces of others: of batches of unlike sizes, TorchRec's train pipelines and its
#: own 2D, and PyTorch's engine where no range is around the backward pass.
OTHER_RANGES: Mapping[str, tuple[str, ...]] = {
    "input_dist": ("[input_dist]", "## input_dist", "## start_sparse_data_dist", "## wait_sparse_data_dist"),
    "dense_forward": ("## forward ##",),
    "dense_backward": ("## backward ##", _EVALUATE),
    "output_dist_backward": _backward_of(
        "Variable_Batch_All2All_Pooled_Wait",
        "Variable_Batch_All2All_Pooled_Req",
        "ReduceScatter_Wait",
        "ReduceScatter_Req",
        "ReduceScatterV_Wait",
        "ReduceScatterV_Req",
    ),
    "dense_optimizer": ("## optimizer ##", "## zero_grad ##"),
    "replica_sync": ("## 2d_weight_sync ##", "## 2d_optimizer_sync ##"),
}
