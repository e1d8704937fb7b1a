"""How good the model is after the last step."""

from .support.benchmark import Benchmark as _Benchmark
from .support.benchmark import for_each_workload, metric


class _Quality(_Benchmark):
    track_auc_higher_is_better = metric("auc", "AUC")
    track_normalized_entropy = metric("normalized_entropy", "normalized entropy")


globals().update(for_each_workload(_Quality))
