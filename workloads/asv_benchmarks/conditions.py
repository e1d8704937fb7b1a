"""What to beware of in the other figures: 1 where a run was flagged so."""

from .support.benchmark import Benchmark, described, for_each_workload
from .support.measuring import Session
from .support.sizes import Layout


class Conditions(Benchmark):
    """The flags of a run's environment that make a figure doubtful."""

    axis = ("flag", ("dirty_tree", "oversubscribed", "busy"))

    @described("flagged: 1 = yes", "1 = yes", "lower")
    def track_flag(self, session: Session, world_size: int, layout: Layout, flag: str) -> int:
        """dirty_tree: the checkout had uncommitted changes, so the commit does not say what was run."""
        return int(flag in self.configuration(session, world_size, layout).flags)


globals().update(for_each_workload(Conditions))
