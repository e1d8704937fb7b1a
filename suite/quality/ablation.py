"""Layout or optimizer? A factorial of both, tuned with equal budgets, judged over paired seeds.

Two questions that one learning rate cannot answer apart:

1. At the learning rate that was tuned for 1D, what do the layout, the optimizer and the two together do? The
   effects of the 2 x 2 {1D, 2D of M groups} x {row-wise AdaGrad, momentum-scaled with c = M}:

       layout        2D plain - 1D plain
       optimizer     1D scaled - 1D plain
       layout:optimizer   (2D scaled - 2D plain) - (1D scaled - 1D plain)

   and the same two of each further optimizer in the place of momentum scaling.

2. With the learning rate tuned for each arm (the same grid, the same seeds, the same number of trainings),
   does a difference remain? A constant c is a learning-rate rule (``reference_impl/optimizer.py``), so that
   tuned arms with and without it are the same family, and ``carry_over`` says what is lost by keeping 1D's.

Where replicas are averaged by several schedules, every 2D arm is there with each, and a third question is how
much AUC a schedule costs the same arm:

    schedule.<arm>    2D by this schedule - 2D by the first one

Tuning uses seeds of its own, so that picking the best does not flatter the arm that was picked.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from suite.errors import ConfigError
from suite.quality.library import TrainingResult
from suite.quality.parity import ArmEstimate, Estimate, Parity, judge, values
from suite.quality.spec import EVERY_STEP, Schedule, Training, VirtualOptimizerName
from suite.spec import Frozen, ParitySpec, SyncOptimizerState

PLAIN: VirtualOptimizerName = "rowwise_adagrad"
SCALED: VirtualOptimizerName = "momentum_scaled_rowwise_adagrad"
#: Seeds that tune start here, far from those that judge.
TUNING_SEED = 1_000_000

Results = Mapping[str, TrainingResult]


class ArmKey(NamedTuple):
    """A cell of the factorial. ``scale`` is c where it is not M: momentum scaling in 1D."""

    groups: int
    optimizer: str
    scale: float | None = None
    schedule: Schedule = EVERY_STEP

    @property
    def name(self) -> str:
        """``1d.rowwise_adagrad``, ``m16.rowwise_adagrad_k8``, ``1d.momentum_scaled_rowwise_adagrad_c16``."""
        layout = "1d" if self.groups == 1 else f"m{self.groups}"
        scale = "" if self.scale is None else f"_c{self.scale:g}"
        return f"{layout}.{self.optimizer}{scale}{self.schedule.suffix}"


#: Makes a training of an arm at a learning rate, with a seed.
Make = Callable[[ArmKey, float, int], Training]
BASELINE = ArmKey(1, PLAIN)


def factorial(groups: int, schedule: Schedule = EVERY_STEP) -> tuple[ArmKey, ArmKey, ArmKey, ArmKey]:
    """1D plain, 2D plain, 1D scaled by c = M, 2D scaled."""
    return (
        BASELINE,
        ArmKey(groups, PLAIN, None, schedule),
        ArmKey(1, SCALED, float(groups)),
        ArmKey(groups, SCALED, None, schedule),
    )


class LearningRateScore(Frozen):
    """What tuning saw at one learning rate: mean AUC over the tuning seeds, None where one diverged."""

    learning_rate: float
    auc: float | None


class ArmResult(Frozen):
    """One arm at the learning rate shared by all, and at its own best."""

    replica_groups: int
    optimizer: str
    scale: float | None
    sync_interval: int
    sync_optimizer_state: SyncOptimizerState
    tuning: tuple[LearningRateScore, ...]
    best_learning_rate: float
    #: The best is the smallest or largest of the grid: the true best may lie beyond.
    best_at_the_edge: bool
    auc: ArmEstimate
    normalized_entropy: ArmEstimate
    auc_at_best: ArmEstimate
    normalized_entropy_at_best: ArmEstimate
    #: Against 1D with plain AdaGrad at the shared learning rate, and both at their best. None for 1D itself.
    parity: Parity | None
    parity_at_best: Parity | None
    #: AUC lost by keeping the learning rate tuned for 1D with the same optimizer (momentum scaling, and c by
    #: row: with plain AdaGrad, which they are there) instead of the arm's own. None where that one diverged.
    carry_over: Estimate | None
    #: Against 1D with the same optimizer, both at their best: what the layout does to this optimizer
    #: (claim C9). None for 1D, and where 1D is not tuned (momentum scaling: there it is plain AdaGrad).
    layout_at_best: Parity | None


class Effect(Frozen):
    """A contrast of AUC over paired seeds, at the shared learning rate, with its 95 % t interval."""

    estimate: float
    low: float | None
    high: float | None


class Ablation(Frozen):
    """The whole factorial."""

    shared_learning_rate: float
    seeds: tuple[int, ...]
    arms: dict[str, ArmResult]
    #: ``layout.m16``, ``optimizer.m16``, ``layout:optimizer.m16``; 2D's schedule as a suffix.
    #: ``optimizer.adam``, ``layout:optimizer.m16.adam`` of other optimizers, and where there are several
    #: schedules ``schedule.m16.rowwise_adagrad_k8``.
    effects: dict[str, Effect]


class Design:
    """Which trainings the factorial takes.

    Args:
        groups: M of the 2D layouts, without 1.
        optimizers: of every layout; momentum scaling in 1D takes c of every M.
        rates: the grid, ascending.
        shared: the learning rate of question 1, one of the grid.
        seeds: that judge.
        tuning_seeds: how many tune.
        make: a Training of these settings.
        schedules: of every 2D layout.
    """

    def __init__(
        self,
        groups: Sequence[int],
        optimizers: Sequence[str],
        rates: Sequence[float],
        shared: float,
        seeds: int,
        tuning_seeds: int,
        make: Make,
        schedules: Sequence[Schedule] = (EVERY_STEP,),
    ) -> None:
        self.baseline = BASELINE
        self.groups = tuple(groups)
        self.schedules = tuple(schedules)
        self.rates = tuple(rates)
        self.shared = shared
        self.seeds = tuple(range(seeds))
        self._tuning = tuple(range(TUNING_SEED, TUNING_SEED + tuning_seeds))
        self._make = functools.cache(make)  # asked for many times, and each is validated when made
        others = [o for o in optimizers if o not in (PLAIN, SCALED, "frequency_scaled_rowwise_adagrad")]
        self.tuned = (
            self.baseline,
            *(ArmKey(1, o) for o in others),
            *(ArmKey(m, o, None, s) for m in groups for o in optimizers for s in schedules),
        )
        #: In 1D a scaled arm is 1D at another learning rate, so that tuning it again would say nothing.
        self.untuned = tuple(ArmKey(1, SCALED, float(m)) for m in groups if SCALED in optimizers)

    def tuning(self) -> list[Training]:
        """Every tuned arm at every learning rate of the grid."""
        return [t for arm in self.tuned for rate in self.rates for t in self._of(arm, rate, self._tuning)]

    def judging(self, tuned: Results) -> list[Training]:
        """All arms at the shared learning rate, and each tuned one at its best."""
        return [
            t
            for arm in (*self.tuned, *self.untuned)
            for rate in dict.fromkeys((self.shared, *self._rates_to_judge(arm, tuned)))
            for t in self._of(arm, rate, self.seeds)
        ]

    def conclude(self, results: Results, goal: ParitySpec) -> Ablation:
        """Judges; ``results`` by training hash holds all of ``tuning`` and ``judging``."""
        shared = {arm: self.at_shared(arm, results) for arm in (*self.tuned, *self.untuned)}
        return Ablation(
            shared_learning_rate=self.shared,
            seeds=self.seeds,
            arms={arm.name: self._arm(arm, results, shared, goal) for arm in shared},
            effects=dict(self._effects(shared)),
        )

    def at_shared(self, arm: ArmKey, results: Results) -> list[TrainingResult]:
        """The trainings of an arm that judge it at the shared learning rate, seed by seed."""
        return self._results(arm, self.shared, results)

    def _rates_to_judge(self, arm: ArmKey, tuned: Results) -> tuple[float, ...]:
        if arm in self.untuned:
            return ()
        carried = self._carried(arm, tuned)
        return (self.best(arm, tuned), *(() if carried is None else (carried,)))

    def best(self, arm: ArmKey, results: Results) -> float:
        """The learning rate with the largest mean AUC over the tuning seeds.

        Raises:
            ConfigError: ``multiples``: the arm diverged at each.
        """
        trained = [
            (score.auc, score.learning_rate) for score in self._scores(arm, results) if score.auc is not None
        ]
        if not trained:
            raise ConfigError(
                "multiples",
                list(self.rates),
                f"{arm.name} diverged at each of these learning rates.",
                "Begin anew with smaller ones, or without this optimizer.",
            )
        return max(trained, key=lambda pair: pair[0])[1]

    def one_d(self, arm: ArmKey) -> ArmKey:
        """1D with this arm's optimizer, or with plain AdaGrad, which a scaled one is where M = 1."""
        own = ArmKey(1, arm.optimizer)
        return own if own in self.tuned else self.baseline

    def _carried(self, arm: ArmKey, results: Results) -> float | None:
        """1D's best learning rate for this optimizer; None where the arm diverged at it."""
        rate = self.best(self.one_d(arm), results)
        trained = {score.learning_rate for score in self._scores(arm, results) if score.auc is not None}
        return rate if rate in trained else None

    def _scores(self, arm: ArmKey, results: Results) -> tuple[LearningRateScore, ...]:
        return tuple(
            LearningRateScore(
                learning_rate=rate,
                auc=_tuned_auc([results[t.training_hash] for t in self._of(arm, rate, self._tuning)]),
            )
            for rate in self.rates
        )

    def _arm(
        self,
        arm: ArmKey,
        results: Results,
        shared: Mapping[ArmKey, list[TrainingResult]],
        goal: ParitySpec,
    ) -> ArmResult:
        tuned = arm in self.tuned
        best = self.best(arm, results) if tuned else self.shared
        at_best = self._results(arm, best, results)
        one_d_best = self.best(self.baseline, results)
        own_1d = ArmKey(1, arm.optimizer)
        carried = self._carried(arm, results) if tuned else best
        return ArmResult(
            replica_groups=arm.groups,
            optimizer=arm.optimizer,
            scale=arm.scale,
            sync_interval=arm.schedule.interval,
            sync_optimizer_state=arm.schedule.state,
            tuning=self._scores(arm, results) if tuned else (),
            best_learning_rate=best,
            best_at_the_edge=tuned and best in (self.rates[0], self.rates[-1]),
            auc=ArmEstimate.of(values(shared[arm], "auc")),
            normalized_entropy=ArmEstimate.of(values(shared[arm], "normalized_entropy")),
            auc_at_best=ArmEstimate.of(values(at_best, "auc")),
            normalized_entropy_at_best=ArmEstimate.of(values(at_best, "normalized_entropy")),
            parity=None if arm == self.baseline else judge(shared[self.baseline], shared[arm], goal),
            parity_at_best=None
            if arm == self.baseline or not tuned
            else judge(self._results(self.baseline, one_d_best, results), at_best, goal),
            carry_over=None if carried is None else _lost(at_best, self._results(arm, carried, results)),
            layout_at_best=None
            if arm.groups == 1 or own_1d not in self.tuned
            else judge(self._results(own_1d, self.best(own_1d, results), results), at_best, goal),
        )

    def _effects(self, shared: Mapping[ArmKey, list[TrainingResult]]) -> Iterator[tuple[str, Effect]]:
        for m in self.groups:
            for schedule in self.schedules:
                cells = factorial(m, schedule)
                if not all(cell in shared for cell in cells):
                    continue
                rows = list(zip(*(values(shared[cell], "auc") for cell in cells), strict=True))
                yield f"layout.m{m}{schedule.suffix}", _effect([b - a for a, b, _, _ in rows])
                if schedule == self.schedules[0]:  # it is of 1D, which syncs nothing
                    yield f"optimizer.m{m}", _effect([c - a for a, _, c, _ in rows])
                yield (
                    f"layout:optimizer.m{m}{schedule.suffix}",
                    _effect([(d - b) - (c - a) for a, b, c, d in rows]),
                )
        yield from self._effects_of_others(shared)
        first = self.schedules[0]
        for arm, results in shared.items():
            if arm.groups > 1 and arm.schedule != first:
                before = values(shared[arm._replace(schedule=first)], "auc")
                pairs = zip(before, values(results, "auc"), strict=True)
                yield f"schedule.{arm.name}", _effect([b - a for a, b in pairs])

    def _effects_of_others(
        self, shared: Mapping[ArmKey, list[TrainingResult]]
    ) -> Iterator[tuple[str, Effect]]:
        """Those of optimizers whose 1D does not depend on M."""
        plain_1d = values(shared[self.baseline], "auc")
        for optimizer in dict.fromkeys(arm.optimizer for arm in self.tuned if arm.groups > 1):
            if optimizer in (PLAIN, SCALED):
                continue
            one_d = self.one_d(ArmKey(1, optimizer))
            other_1d = values(shared[one_d], "auc")
            if one_d != self.baseline:
                pairs = zip(plain_1d, other_1d, strict=True)
                yield f"optimizer.{optimizer}", _effect([c - a for a, c in pairs])
            for m in self.groups:
                for schedule in self.schedules:
                    plain, other = (
                        values(shared[ArmKey(m, o, None, schedule)], "auc") for o in (PLAIN, optimizer)
                    )
                    rows = zip(plain_1d, plain, other_1d, other, strict=True)
                    yield (
                        f"layout:optimizer.m{m}.{optimizer}{schedule.suffix}",
                        _effect([(d - b) - (c - a) for a, b, c, d in rows]),
                    )

    def _results(self, arm: ArmKey, rate: float, results: Results) -> list[TrainingResult]:
        return [results[t.training_hash] for t in self._of(arm, rate, self.seeds)]

    def _of(self, arm: ArmKey, rate: float, seeds: Sequence[int]) -> list[Training]:
        return [self._make(arm, rate, seed) for seed in seeds]


def _tuned_auc(results: Sequence[TrainingResult]) -> float | None:
    if any(result.diverged for result in results):
        return None
    return statistics.fmean(values(results, "auc"))


def _lost(at_best: Sequence[TrainingResult], carried: Sequence[TrainingResult]) -> Estimate:
    pairs = zip(values(at_best, "auc"), values(carried, "auc"), strict=True)
    return Estimate.of([a - b for a, b in pairs])


def _effect(differences: Sequence[float]) -> Effect:
    found = Estimate.of(differences)
    return Effect(estimate=found.mean, low=found.low, high=found.high)
