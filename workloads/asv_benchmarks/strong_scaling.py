"""Strong scaling: the global batch stays from T to T."""

from .support.benchmark import for_each_workload
from .support.scaling import Scaling

globals().update(for_each_workload(Scaling))
