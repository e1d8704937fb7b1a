"""How TorchRec, FBGEMM, PyTorch and the reference implementation name what makes up a component."""

from __future__ import annotations

from collections.abc import Mapping

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
    "dense_all_reduce": ("## dense_all_reduce wait ##", "c10d::allreduce_"),
    "output_dist_backward": (
        "## All2All_Pooled_bwd ##",  # table-wise
        "All2All_Pooled_WaitBackward",
        "All2All_Pooled_ReqBackward",
        "## ReduceScatterBase_bwd",  # row-wise
        "ReduceScatterBase_WaitBackward",
        "ReduceScatterBase_ReqBackward",
        "## ReduceScatter_bwd",
        "ReduceScatter_WaitBackward",
        "ReduceScatter_ReqBackward",
        "## ReduceScatterV_bwd",
        "ReduceScatterV_WaitBackward",
        "ReduceScatterV_ReqBackward",
        "## Variable_Batch_All2All_Pooled_bwd",  # batches of unlike sizes
        "Variable_Batch_All2All_Pooled_WaitBackward",
        "Variable_Batch_All2All_Pooled_ReqBackward",
    ),
    "lookup_backward_optimizer": (
        "fbgemm::split_embedding_backward_codegen",
        "torch::autograd::CppNode<SplitLookupFunction",
    ),
    "dense_optimizer": ("## dense_optimizer ##", "Optimizer.step#", "Optimizer.zero_grad#"),
    "replica_sync": ("## replica_sync ##",),
}
