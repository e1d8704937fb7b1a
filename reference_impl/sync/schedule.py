"""When replicas are averaged."""

from __future__ import annotations

from reference_impl.sync.contract import ReplicaSync


class Schedule:
    """A sync after every k-th step; in between each group trains on its own, a kind of local SGD.

    Args:
        sync: what a sync does.
        interval: k, steps from one sync to the next.
    """

    def __init__(self, sync: ReplicaSync, interval: int = 1) -> None:
        self._sync = sync
        self._interval = interval
        self._steps_since = 0

    def after_step(self) -> None:
        """Counts a step, and syncs if it was the k-th. Called by every rank after every step."""
        self._steps_since += 1
        if self._steps_since == self._interval:
            self.catch_up()

    def catch_up(self) -> None:
        """Makes the replicas equal now: an early sync, unless no step was taken since the last one.

        It is a sync like any other. Delayed moments become those of the sync before it, and the next
        sync is due k steps later.
        """
        if self._steps_since:
            self._sync.average()
            self._steps_since = 0
