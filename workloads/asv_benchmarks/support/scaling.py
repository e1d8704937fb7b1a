"""How fast more ranks are, and 2D beside 1D: the figures that strong and weak scaling share."""

from __future__ import annotations

import math
from statistics import median

from .benchmark import Benchmark, described, metric
from .measuring import Session
from .records import Measured
from .sizes import ONE_D, Layout


def efficiency(speed: float, speed_of_one: float, world_size: int) -> float:
    """Samples per second of T ranks over T times those of one: 1 is ideal, in weak and strong scaling."""
    return speed / (world_size * speed_of_one)


def _speed(found: Measured) -> float:
    values = found.metrics.get("samples_per_s")
    return median(values) if values else math.nan


class Scaling(Benchmark):
    """Speed, and speed over that of one rank, and over that of 1D at the same T."""

    track_samples_per_s_higher_is_better = metric("samples_per_s")
    track_step_ms = metric("step_ms")

    @described("efficiency: speed over T times that of 1D on one rank", "ratio", "higher")
    def track_efficiency_higher_is_better(self, session: Session, world_size: int, layout: Layout) -> float:
        """1 where T ranks are T times as fast as one."""
        speed, one = (self.configuration(session, *c) for c in ((world_size, layout), (1, ONE_D)))
        return efficiency(_speed(speed), _speed(one), world_size)

    @described("time over the ideal: 1 / efficiency", "ratio", "lower")
    def track_time_over_ideal(self, session: Session, world_size: int, layout: Layout) -> float:
        """The twin of the efficiency."""
        return 1 / self.track_efficiency_higher_is_better(session, world_size, layout)

    @described("speed over 1D at the same T", "ratio", "higher")
    def track_speed_over_1d_higher_is_better(
        self, session: Session, world_size: int, layout: Layout
    ) -> float:
        """Above 1 where the layout is faster than TorchRec's own 1D."""
        return _speed(self.configuration(session, world_size, layout)) / _speed(
            self.configuration(session, world_size, ONE_D)
        )

    @described("step time over 1D at the same T", "ratio", "lower")
    def track_step_time_over_1d(self, session: Session, world_size: int, layout: Layout) -> float:
        """The twin of the speed over 1D."""
        return 1 / self.track_speed_over_1d_higher_is_better(session, world_size, layout)
