"""What to beware of in the other figures: 1 where a run was flagged so."""

from .support.benchmark import Benchmark as _Benchmark
from .support.benchmark import described, for_each_workload
from .support.measuring import Session as _Session
from .support.sizes import Layout as _Layout


class _Conditions(_Benchmark):
    # Of the flags of an environment those that make a figure doubtful.
    axis = ("flag", ("dirty_tree", "oversubscribed", "busy"))

    @described("flagged: 1 = yes", "1 = yes", "lower")
    def track_flag(self, session: _Session, world_size: int, layout: _Layout, flag: str) -> int:
        """dirty_tree: the checkout had uncommitted changes, so the commit does not say what was run."""
        return int(flag in self.configuration(session, world_size, layout).flags)


globals().update(for_each_workload(_Conditions))
