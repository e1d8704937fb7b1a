"""A against A: how much launches of one program differ here, and what a gate can therefore see.

From a set of saved launches of the same program many gates are drawn: launches are dealt at random, without
replacement, to base and head, first and second look. Whatever such a gate calls worse is a false alarm. With
head's values multiplied by 1 + d it should call them worse, and how often it does is its power. The launches
are measured; the slowdown, put on their values, is modelled.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence

from suite.errors import ConfigError
from suite.gate.noise import first_look, fresh_launches, second_look
from suite.gate.plan import RegressionPlan
from suite.gate.regression import Pair, Side, judged_noisy
from suite.metrics import METRICS
from suite.spec import Frozen

#: Of differences of A against A that a margin is to hold.
_HELD = 0.95
#: A margin below this is luck of the launches at hand.
_SMALLEST_MARGIN = 0.01
POWER = 0.9
_SLOWDOWNS = (
    0.01,
    0.02,
    0.03,
    0.04,
    0.05,
    0.06,
    0.08,
    0.10,
    0.12,
    0.15,
    0.20,
    0.25,
    0.30,
    0.40,
    0.50,
    0.75,
    1.0,
)

#: Values of each metric of one configuration, a launch each.
Values = Mapping[str, Sequence[float]]


class Sight(Frozen):
    """What a gate can see of one metric of one configuration."""

    configuration: str
    name: str
    #: Half of (largest - smallest) over the median.
    spread: float
    #: What A against A stays within in 95 % of drawn gates, at least 1 %.
    margin: float
    #: The smallest slowdown that is called worse in 90 % of drawn gates; None where none up to 100 % is.
    smallest: float | None


class Calibration(Frozen):
    """The whole answer."""

    launches: int
    gates: int
    #: Share of drawn gates of A against A that called anything worse.
    false_alarms: float
    #: Share of them that had to look a second time.
    second_looks: float
    sights: tuple[Sight, ...]

    @property
    def margins(self) -> dict[str, float]:
        """By metric, the largest over the configurations."""
        found: dict[str, float] = {}
        for sight in self.sights:
            found[sight.name] = max(sight.margin, found.get(sight.name, 0.0))
        return found


def values_of(name: str, side: Side, plan: RegressionPlan) -> dict[str, list[float]]:
    """The noisy metrics that a gate would judge by a ratio: not one that some launch has none of."""
    values = {
        metric.name: [value for record in side.records for value in metric.values(record)]
        for metric in judged_noisy(Pair(name, side, side), plan)
    }
    return {metric: of_launches for metric, of_launches in values.items() if min(of_launches) > 0}


def calibrate(
    configurations: Mapping[str, Values], plan: RegressionPlan, gates: int = 1000, seed: int = 0
) -> Calibration:
    """Draws gates from launches of one program.

    Args:
        configurations: the values of each configuration's metrics.
        plan: margins and launches of the gate.
        gates: how many are drawn for the false alarms; a fifth of it for each slowdown.
        seed: of the drawing.

    Raises:
        ConfigError: fewer launches than one gate may take.
    """
    alarms, seconds = draw_gates(configurations, plan, gates, seed)
    draw = random.Random(seed)
    sights = [
        Sight(
            configuration=configuration,
            name=name,
            spread=(max(of_launches) - min(of_launches)) / 2 / statistics.median(of_launches),
            margin=_margin(of_launches, plan.launches, draw),
            smallest=_smallest(of_launches, name, plan, max(1, gates // 5), draw),
        )
        for configuration, values in configurations.items()
        for name, of_launches in values.items()
    ]
    return Calibration(
        launches=min(len(v) for values in configurations.values() for v in values.values()),
        gates=gates,
        false_alarms=alarms / gates,
        second_looks=seconds / gates,
        sights=tuple(sights),
    )


def draw_gates(
    configurations: Mapping[str, Values], plan: RegressionPlan, gates: int, seed: int = 0
) -> tuple[int, int]:
    """How many of so many gates of A against A called anything worse, and how many looked twice.

    Raises:
        ConfigError: fewer launches than one gate may take.
    """
    judged = sum(len(values) for values in configurations.values())
    needed = 2 * (plan.launches + _fresh(judged, plan))
    for name, values in configurations.items():
        count = min((len(of_launches) for of_launches in values.values()), default=0)
        if count < needed:
            raise ConfigError(
                "calibrate",
                name,
                f"{count} of its launches are there, and one gate deals out up to {needed}.",
                f"Record {needed} or more of each configuration: sparse2d run --launches {needed}.",
            )
    draw = random.Random(seed)
    alarms = seconds = 0
    for _ in range(gates):
        worse, looked = _gate(configurations, plan, draw)
        alarms += bool(worse)
        seconds += looked
    return alarms, seconds


def _gate(
    configurations: Mapping[str, Values], plan: RegressionPlan, draw: random.Random
) -> tuple[list[tuple[str, str]], bool]:
    """One gate of A against A: what it called worse, and whether it looked twice."""
    dealt = {}
    suspects = []
    for configuration, values in configurations.items():
        count = min(len(of_launches) for of_launches in values.values())
        dealt[configuration] = draw.sample(range(count), count)
        for name, of_launches in values.items():
            one, other = _hands(of_launches, dealt[configuration], 0, plan.launches)
            metric = METRICS[name]
            if first_look(one, other, metric.direction, plan.margin(metric))[1]:
                suspects.append((configuration, name))
    fresh = _fresh(len(suspects), plan)
    worse = []
    for configuration, name in suspects:
        metric = METRICS[name]
        order = dealt[configuration]
        one, other = _hands(configurations[configuration][name], order, 2 * plan.launches, fresh)
        found = second_look(one, other, metric.direction, plan.margin(metric), len(suspects))
        if found.verdict == "worse":
            worse.append((configuration, name))
    return worse, bool(suspects)


def _smallest(
    values: Sequence[float], name: str, plan: RegressionPlan, gates: int, draw: random.Random
) -> float | None:
    metric = METRICS[name]
    margin, fresh = plan.margin(metric), _fresh(1, plan)
    for slowdown in _SLOWDOWNS:
        caught = 0
        for _ in range(gates):
            order = draw.sample(range(len(values)), len(values))
            one, other = _hands(values, order, 0, plan.launches)
            slower = [value * (1 + slowdown) for value in other]
            if first_look(one, slower, metric.direction, margin)[1]:
                one, other = _hands(values, order, 2 * plan.launches, fresh)
                slower = [value * (1 + slowdown) for value in other]
                caught += second_look(one, slower, metric.direction, margin, 1).verdict == "worse"
        if caught >= POWER * gates:
            return slowdown
    return None


def _margin(values: Sequence[float], launches: int, draw: random.Random, draws: int = 1000) -> float:
    ratios = []
    for _ in range(draws):
        order = draw.sample(range(len(values)), 2 * launches)
        one, other = _hands(values, order, 0, launches)
        ratios.append(abs(math.log(statistics.median(other) / statistics.median(one))))
    held = math.expm1(sorted(ratios)[math.ceil(_HELD * draws) - 1])
    return max(_SMALLEST_MARGIN, math.ceil(held * 200) / 200)


def _hands(
    values: Sequence[float], order: Sequence[int], start: int, count: int
) -> tuple[list[float], list[float]]:
    """The next ``count`` launches for base and as many for head."""
    mine = [values[place] for place in order[start : start + 2 * count]]
    return mine[:count], mine[count:]


def _fresh(suspects: int, plan: RegressionPlan) -> int:
    return fresh_launches(max(1, suspects), plan.fresh_launches)
