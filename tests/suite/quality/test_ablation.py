"""The factorial on results made from a formula, so that every effect is known."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from suite.catalog import load_workload
from suite.errors import ConfigError
from suite.quality.ablation import PLAIN, SCALED, TUNING_SEED, Ablation, ArmKey, Design
from suite.quality.library import Experiment, TrainingResult
from suite.quality.plots import draw
from suite.quality.spec import Schedule, Training, VirtualOptimizer
from suite.spec import ParitySpec
from tests.suite.quality.results import result_of

SHARED = 0.1
RATES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
BEST_1D = 0.2
#: AUC lost for each doubling of the learning rate away from the best, squared.
STEEP = 0.004
#: AUC lost for each step between syncs, and by delayed state.
STALE, LATE = 0.001, 0.0005


def make(arm: ArmKey, rate: float, seed: int) -> Training:
    """Settings of one training."""
    return Training(
        workload=load_workload("smoke"),
        replica_groups=arm.groups,
        optimizer=VirtualOptimizer(name=arm.optimizer, learning_rate=rate, scale=arm.scale),
        sync_interval=arm.schedule.interval,
        sync_optimizer_state=arm.schedule.state,
        global_batch=256,
        steps=1,
        curve_points=1,
        seed=seed,
    )


def auc(training: Training) -> float:
    """With M groups the best learning rate of plain AdaGrad is sqrt(M) larger; nothing else is lost.

    A scale of c acts as a learning rate that is sqrt(c) larger, a rarer sync and delayed state cost a little,
    and a seed adds what it adds to every arm.
    """
    m, optimizer = training.replica_groups, training.optimizer
    c = (optimizer.scale or float(m)) if optimizer.name == SCALED else 1.0
    away = math.log2(optimizer.learning_rate * math.sqrt(c) / (BEST_1D * math.sqrt(m)))
    noise = 1e-5 * ((training.seed * 7 + m) % 5)
    late = STALE * (training.sync_interval - 1) + LATE * (training.sync_optimizer_state == "delayed")
    return 0.78 - STEEP * away**2 - late + 0.0005 * (training.seed % 3) + noise


@pytest.fixture(scope="module")
def design() -> Design:
    """4 and 16 groups, two optimizers."""
    return Design([4, 16], [PLAIN, SCALED], RATES, SHARED, seeds=8, tuning_seeds=2, make=make)


@pytest.fixture(scope="module")
def ablation(design: Design) -> Ablation:
    """Judged on the formula."""
    results: dict[str, TrainingResult] = {t.training_hash: result_of(t, [auc(t)]) for t in design.tuning()}
    results |= {t.training_hash: result_of(t, [auc(t)]) for t in design.judging(results)}
    return design.conclude(results, ParitySpec())


def test_every_arm_is_tuned_with_the_same_budget_and_other_seeds(design: Design) -> None:
    trainings = design.tuning()
    budgets: dict[tuple[int, str], int] = {}
    for training in trainings:
        arm = (training.replica_groups, training.optimizer.name)
        budgets[arm] = budgets.get(arm, 0) + 1
    assert set(budgets.values()) == {2 * len(RATES)}
    assert len(budgets) == 5
    assert {t.seed for t in trainings} == {TUNING_SEED, TUNING_SEED + 1}


def test_each_arm_finds_its_best_learning_rate(ablation: Ablation) -> None:
    best = {name: arm.best_learning_rate for name, arm in ablation.arms.items() if arm.tuning}
    assert best == {
        f"1d.{PLAIN}": 0.2,
        f"m4.{PLAIN}": 0.4,
        f"m4.{SCALED}": 0.2,
        f"m16.{PLAIN}": 0.8,
        f"m16.{SCALED}": 0.2,
    }
    assert not any(arm.best_at_the_edge for arm in ablation.arms.values())


def test_the_effects_are_those_of_the_formula(ablation: Ablation) -> None:
    """At lr 0.1, doublings from the best: 1D -1; M = 16 -3; 1D with c = 16 +1; M = 16 with it -1."""
    assert ablation.effects["layout.m16"].estimate == pytest.approx(-8 * STEEP, abs=1e-4)
    assert ablation.effects["optimizer.m16"].estimate == pytest.approx(0, abs=1e-4)
    assert ablation.effects["layout:optimizer.m16"].estimate == pytest.approx(8 * STEEP, abs=1e-4)


def test_at_the_shared_learning_rate_plain_2d_is_worse_and_at_its_best_it_is_not(ablation: Ablation) -> None:
    arm = ablation.arms[f"m16.{PLAIN}"]
    assert arm.parity is not None
    assert arm.parity_at_best is not None
    assert arm.parity.verdict == "worse"
    assert arm.parity_at_best.verdict == "equivalent"
    # 1D's best, 0.2, is two doublings below its own, 0.8.
    assert arm.carry_over is not None
    assert arm.carry_over.mean == pytest.approx(4 * STEEP)


def test_momentum_scaling_keeps_1ds_learning_rate(ablation: Ablation) -> None:
    arm = ablation.arms[f"m16.{SCALED}"]
    assert arm.carry_over is not None
    assert arm.carry_over.mean == 0
    assert arm.parity is not None
    assert arm.parity.verdict == "equivalent"


def test_each_optimizer_is_judged_against_itself_in_1d(ablation: Ablation) -> None:
    arm = ablation.arms[f"m16.{PLAIN}"]
    assert arm.layout_at_best == arm.parity_at_best
    assert ablation.arms[f"m16.{SCALED}"].layout_at_best is None  # 1D is not tuned with it
    assert ablation.arms[f"1d.{PLAIN}"].layout_at_best is None

    # Adam is 0.1 below, and its best learning rate does not move with M.
    def trained(trainings: list[Training]) -> dict[str, TrainingResult]:
        return {t.training_hash: result_of(t, [of_adam(t)]) for t in trainings}

    def of_adam(training: Training) -> float:
        if training.optimizer.name != "adam":
            return auc(training)
        return 0.68 - STEEP * math.log2(training.optimizer.learning_rate / 0.8) ** 2

    design = Design([4], [PLAIN, "adam"], RATES, SHARED, seeds=4, tuning_seeds=1, make=make)
    results = trained(design.tuning())
    results |= trained(design.judging(results))
    found = design.conclude(results, ParitySpec())
    arm = found.arms["m4.adam"]
    assert arm.parity_at_best is not None
    assert arm.layout_at_best is not None
    assert (arm.parity_at_best.verdict, arm.layout_at_best.verdict) == ("worse", "equivalent")
    assert arm.best_learning_rate == 0.8
    # What 1D with Adam was tuned to, 0.8, and not what it was with AdaGrad, 0.2.
    assert arm.carry_over is not None
    assert arm.carry_over.mean == 0
    # At lr 0.1: AdaGrad 1 doubling from its best in 1D and 2 at M = 4; Adam 3 in both.
    assert found.effects["optimizer.adam"].estimate == pytest.approx(-0.1 - 8 * STEEP, abs=2e-3)
    assert found.effects["layout:optimizer.m4.adam"].estimate == pytest.approx(3 * STEEP, abs=1e-4)


def test_a_learning_rate_that_diverges_is_not_the_best_and_costs_nothing_else(design: Design) -> None:
    def of(training: Training, from_rate: float) -> TrainingResult:
        if training.replica_groups == 16 and training.optimizer.learning_rate >= from_rate:
            return TrainingResult(training=training, curve=(), last_loss=None, diverged="The loss is nan.")
        return result_of(training, [auc(training)])

    results = {t.training_hash: of(t, 0.2) for t in design.tuning()}
    judging = design.judging(results)
    results |= {t.training_hash: of(t, 0.2) for t in judging}
    arm = design.conclude(results, ParitySpec()).arms[f"m16.{PLAIN}"]
    assert [score.auc is None for score in arm.tuning] == [False, False, True, True, True, True]
    assert arm.best_learning_rate == 0.1
    assert arm.carry_over is None  # 1D was tuned to 0.2
    assert not any(results[t.training_hash].diverged for t in judging)

    results = {t.training_hash: of(t, 0.0) for t in design.tuning()}
    with pytest.raises(ConfigError, match=f"m16.{PLAIN} diverged at each") as refused:
        design.judging(results)
    assert refused.value.report.field == "multiples"


def test_1d_with_each_c_is_there_but_not_tuned(ablation: Ablation) -> None:
    assert {name for name, arm in ablation.arms.items() if not arm.tuning} == {
        f"1d.{SCALED}_c4",
        f"1d.{SCALED}_c16",
    }


def test_every_2d_arm_is_there_with_every_schedule() -> None:
    schedules = [Schedule(1), Schedule(1, "delayed"), Schedule(4), Schedule(4, "delayed")]
    design = Design([4], [PLAIN, SCALED], RATES, SHARED, 4, 1, make, schedules)
    results: dict[str, TrainingResult] = {t.training_hash: result_of(t, [auc(t)]) for t in design.tuning()}
    results |= {t.training_hash: result_of(t, [auc(t)]) for t in design.judging(results)}
    found = design.conclude(results, ParitySpec())

    suffixes = ["", "_delayed", "_k4", "_k4_delayed"]
    assert [name for name in found.arms if name.startswith("m4")] == [
        f"m4.{optimizer}{suffix}" for optimizer in (PLAIN, SCALED) for suffix in suffixes
    ]
    arm = found.arms[f"m4.{SCALED}_k4_delayed"]
    assert (arm.sync_interval, arm.sync_optimizer_state) == (4, "delayed")
    assert [name for name in found.arms if name.startswith("1d")] == [f"1d.{PLAIN}", f"1d.{SCALED}_c4"]
    effects = {name: effect.estimate for name, effect in found.effects.items()}
    for suffix, lost in zip(suffixes, (0, LATE, 3 * STALE, 3 * STALE + LATE), strict=True):
        # Doublings from the best: 1D 1, 2D 2, 1D with c = 4 none, 2D with it 1; and what the schedule costs.
        assert effects[f"layout.m4{suffix}"] == pytest.approx(-3 * STEEP - lost, abs=1e-4)
        assert effects[f"layout:optimizer.m4{suffix}"] == pytest.approx(2 * STEEP, abs=1e-4)
        assert (f"schedule.m4.{PLAIN}{suffix}" in effects) == bool(suffix)
        assert (f"optimizer.m4{suffix}" in effects) == (not suffix)
        if suffix:
            assert effects[f"schedule.m4.{PLAIN}{suffix}"] == pytest.approx(-lost)


def test_the_pictures_are_png_files(ablation: Ablation, tmp_path: Path) -> None:
    paths = draw(ablation, Experiment(tmp_path, {}, "-30-seeds"), "title")
    assert {p.name for p in paths} == {"learning_rates-30-seeds.png", "differences-30-seeds.png"}
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in paths)
