"""How good the model is after the last step."""

from .support.benchmark import Benchmark, for_each_workload, metric


class Quality(Benchmark):
    """On the evaluation split."""

    track_auc_higher_is_better = metric("auc", "AUC")
    track_normalized_entropy = metric("normalized_entropy", "normalized entropy")


globals().update(for_each_workload(Quality))
