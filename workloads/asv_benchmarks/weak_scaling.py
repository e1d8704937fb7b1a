"""Weak scaling: the batch of a rank stays from T to T."""

from .support.benchmark import for_each_workload
from .support.scaling import Scaling


class WeakScaling(Scaling):
    """The same figures as in strong scaling, T times the batch."""

    scaling = "weak"


globals().update(for_each_workload(WeakScaling))
