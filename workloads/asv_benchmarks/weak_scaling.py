"""Weak scaling: the batch of a rank stays from T to T."""

from .support.benchmark import for_each_workload
from .support.scaling import Scaling as _Scaling


class _WeakScaling(_Scaling):
    scaling = "weak"


globals().update(for_each_workload(_WeakScaling))
