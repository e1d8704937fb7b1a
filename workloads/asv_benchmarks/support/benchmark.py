"""What makes a benchmark of a metric, and a class of benchmarks for each workload.

asv takes lower for better, in ``asv compare``, ``asv continuous`` and its list of regressions, and cannot be
told otherwise. So whatever is better when higher says so at the end of its name, is left out of the list of
regressions (``asv.conf.json``), and has a twin beside it that is better when lower.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from suite.catalog import load_workload
from suite.errors import ConfigError
from suite.metrics import METRICS
from suite.metrics.base import Direction

from . import sizes
from .measuring import GRACE_S, Session, measured, open_session
from .records import Measured
from .sizes import Configuration, Layout, Scaling

#: What asv shows in its own ways: bytes as KiB, MiB and so on.
_UNITS = {"B": "bytes", "": "ratio"}
HIGHER = "_higher_is_better"

#: A value, no value (NaN, which asv shows as n/a), or the launches as samples, so that asv has their spread.
Value = float | dict[str, Any]


class Benchmark(ABC):
    """Base of a family: a figure at every T and layout, and along one more axis where it has several.

    Abstract, as asv runs every class that is not, also one that a module only imports.

    Attributes:
        version: the workload's spec hash: figures of a changed workload start a new series.
        axis: name and values of a third parameter.
        scaling: whether the global batch or the batch per rank is kept from T to T.
    """

    version: ClassVar[str]
    axis: ClassVar[tuple[str, tuple[str, ...]] | None] = None
    scaling: ClassVar[Scaling] = "strong"

    # For asv; filled in by ``for_each_workload``.
    params: ClassVar[list[list[Any]]]
    param_names: ClassVar[list[str]]
    skip_params: ClassVar[list[tuple[Any, ...]]]
    timeout: ClassVar[float]

    @property
    @abstractmethod
    def workload(self) -> str:
        """As the command line takes it."""

    def setup_cache(self) -> Session:
        """Once a call of asv: asv takes the same source line for the same cache, in whichever class."""
        return open_session()

    def setup(self, session: Session, world_size: int, layout: Layout, *_: str) -> None:
        """Runs the configuration, where no other metric has done so."""
        # Whatever fails is told by its message; where in this file it was raised helps nobody.
        sys.tracebacklimit = 0
        session.check_version(type(self).__name__, self.version)
        self.configuration(session, world_size, layout)

    def configuration(self, session: Session, world_size: int, layout: Layout) -> Measured:
        """A configuration of this workload.

        Raises:
            ConfigurationFailed: it has no figures.
        """
        return measured(session, Configuration(self.workload, self.scaling, world_size, layout))

    def value(self, session: Session, world_size: int, layout: Layout, name: str) -> Value:
        """A metric of ``suite.metrics`` of one configuration."""
        values = self.configuration(session, world_size, layout).metrics.get(name)
        if not values:
            return math.nan
        return values[0] if len(values) == 1 else {"samples": list(values), "number": 1}


def metric(name: str, title: str | None = None) -> Callable[..., Value]:
    """The benchmark of a metric of ``suite.metrics``, with its unit and direction.

    Args:
        name: of the metric; ``{}`` is where the value of the family's axis goes.
        title: what the page calls it, where that is not the metric's name.
    """
    found = next(m for m in METRICS.values() if re.fullmatch(re.escape(name).replace(r"\{\}", ".+"), m.name))

    @described(title or name.replace(".{}", "").replace("{}.", ""), found.unit, found.direction)
    def track(self: Benchmark, session: Session, world_size: int, layout: Layout, *along: str) -> Value:
        return self.value(session, world_size, layout, name.format(*along))

    return track


def described(
    title: str, unit: str, direction: Direction
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a benchmark what asv shows and keeps of it: ``benchmarks.json`` has the direction, too."""

    def describe(function: Callable[..., Any]) -> Callable[..., Any]:
        function.unit = _UNITS.get(unit, unit)  # type: ignore[attr-defined]
        function.direction = direction  # type: ignore[attr-defined]
        function.pretty_name = f"{title} ({direction} is better)"  # type: ignore[attr-defined]
        return function

    return describe


def for_each_workload(family: type[Benchmark]) -> dict[str, type[Benchmark]]:
    """A class for each workload of the chosen size, by the workload's name: what a module puts into itself.

    Raises:
        ValueError: there is no such size. asv shows its text, and of a ConfigError it would show the half.
        ConfigError: there is no such workload.
    """
    try:
        size = sizes.chosen()
    except ConfigError as error:
        raise ValueError(f"{error.report.what} {error.report.remedy}") from None
    axes: dict[str, tuple[Any, ...]] = {
        "world_size": size.world_sizes[family.scaling],
        "layout": size.layouts,
    }
    if family.axis is not None:
        axes[family.axis[0]] = family.axis[1]
    impossible = [p for p in itertools.product(*axes.values()) if not p[1].fits(p[0])]
    made = {}
    for workload in size.workloads:
        spec = load_workload(workload)
        name = re.sub(r"\W", "_", spec.name)
        figures = {
            track: _of_workload(spec.name, function)
            for track, function in inspect.getmembers(family, inspect.isfunction)
            if track.startswith("track_")
        }
        made[name] = type(
            name,
            (family,),
            {
                **figures,
                "__doc__": family.__doc__,
                "__module__": family.__module__,
                "workload": workload,
                "version": spec.spec_hash,
                "params": [list(values) for values in axes.values()],
                "param_names": list(axes),
                "skip_params": impossible,
                # asv's own limit comes after ours, so that what takes too long fails with its reason.
                "timeout": sum(
                    size.limit_s + 2 * GRACE_S for c in size.every_configuration() if c.workload == workload
                ),
            },
        )
    return made


def _of_workload(workload: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same benchmark under a title that names the workload: the page shows titles alone."""

    @functools.wraps(function)
    def track(*given: Any) -> Any:
        return function(*given)

    track.pretty_name = f"{workload}: {function.pretty_name}"  # type: ignore[attr-defined]
    return track
