"""The factorial on speed, on times that are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.catalog import load_workload
from suite.environment import capture
from suite.errors import ConfigError, ErrorReport, RunFailed
from suite.quality import throughput
from suite.quality.ablation import PLAIN, SCALED, ArmKey
from suite.quality.library import KEPT, Experiment, new_experiment, open_experiment
from suite.quality.throughput import Took, cells, conclude, measure
from suite.spec import LayoutSpec, OptimizerSpec, RunSpec
from tests.suite.quality.results import BEGUN

ONE, TWO = ArmKey(1, PLAIN), ArmKey(2, PLAIN)
ONE_SCALED, TWO_SCALED = ArmKey(1, SCALED, 2.0), ArmKey(2, SCALED)
BASE = RunSpec(workload=load_workload("smoke"), layout=LayoutSpec(world_size=2), optimizer=OptimizerSpec())


def took(*scaled_2d: float) -> Took:
    """2D takes twice as long, scaling 1.1 times; machines drift from block to block alike."""
    drift = [1.0, 1.5, 2.0][: len(scaled_2d)]
    times = {ONE: [10.0] * 3, TWO: [20.0] * 3, ONE_SCALED: [11.0] * 3, TWO_SCALED: scaled_2d}
    return {
        key: [{"step_ms": ms * d, "rollups.lookup": ms * d / 2} for ms, d in zip(of, drift, strict=True)]
        for key, of in times.items()
    }


def test_the_cells_differ_in_layout_and_optimizer_alone() -> None:
    runs = cells(BASE, [2, 3])
    assert list(runs) == [ONE, TWO, ONE_SCALED, TWO_SCALED]  # 3 does not divide 2 ranks
    assert [run.optimizer.scale for run in runs.values()] == [None, None, 2.0, None]
    alike = {
        run.model_copy(update={"layout": BASE.layout, "optimizer": BASE.optimizer}).model_dump_json()
        for run in runs.values()
    }
    assert len(alike) == 1


def test_no_group_number_that_divides_is_refused() -> None:
    with pytest.raises(ConfigError, match="none of the replica groups"):
        cells(BASE, [4])


def test_effects_are_ratios_inside_blocks() -> None:
    found = conclude(cells(BASE, [2]), took(22.0, 22.0, 22.0), dict.fromkeys(took(1, 1, 1), None), 0.7)
    effects = {name: effect.estimate for name, effect in found.effects.items()}
    assert effects == pytest.approx({"layout.m2": 2.0, "optimizer.m2": 1.1, "layout:optimizer.m2": 1.0})
    # All blocks agree although the machine got twice as slow, so the interval has no width.
    assert found.effects["layout.m2"].low == pytest.approx(2.0)
    assert found.rollup_effects["lookup"]["layout.m2"].estimate == pytest.approx(2.0)
    assert "all_to_all" not in found.rollup_effects


def test_an_interaction_is_told_with_its_interval() -> None:
    found = conclude(
        cells(BASE, [2]), took(22.0 * 1.2, 22.0 * 1.25, 22.0 * 1.3), dict.fromkeys(took(1, 1, 1), None), 0.7
    )
    effect = found.effects["layout:optimizer.m2"]
    assert effect.low is not None
    assert effect.high is not None
    assert 1 < effect.low < effect.estimate < effect.high < 1.5
    assert effect.estimate == pytest.approx((1.2 * 1.25 * 1.3) ** (1 / 3))


def test_time_to_target_is_samples_over_samples_a_second() -> None:
    needed = {ONE: 25_600.0, TWO: 51_200.0, ONE_SCALED: None, TWO_SCALED: 1.0}
    found = conclude(cells(BASE, [2]), took(22.0, 22.0, 22.0), needed, 0.7)
    # The global batch is 256: 100 steps of 15 ms in the median launch.
    time = found.cells[ONE.name].time_to_target_s
    assert time is not None
    assert time.median == pytest.approx(1.5)
    assert found.cells[ONE.name].samples_per_s.median == pytest.approx(256 / 0.015)
    assert found.cells[ONE_SCALED.name].time_to_target_s is None


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return new_experiment(tmp_path, BASE.workload, "ablate", capture(None), BEGUN)


def test_launches_take_turns_and_are_kept(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[int, str, int]] = []

    def launched(run: RunSpec, *_: object) -> dict[str, object]:
        ran.append((run.layout.replica_groups, run.optimizer.name, run.seed))
        if len(ran) == 6:
            raise RunFailed(ErrorReport(kind="rank_failed", message="one died"))
        return {"ms": {"step_ms": float(len(ran))}}

    monkeypatch.setattr(throughput, "_launched", launched)
    runs = cells(BASE, [2])
    arguments = (runs, 2, experiment.path, experiment, None, lambda *_: None)
    with pytest.raises(RunFailed):
        measure(*arguments)  # type: ignore[arg-type]  # no launcher: nothing is launched
    assert [m for m, _, _ in ran[:4]] == [1, 2, 1, 2]
    assert [m for m, _, _ in ran[4:]] == [2, 1]  # the second block starts with the second cell

    again = open_experiment(experiment.path, capture(None), BEGUN)
    found = measure(*(runs, 2, experiment.path, again, None, lambda *_: None))  # type: ignore[arg-type]
    assert len(ran) == 6 + 3  # five were kept
    assert [launch["step_ms"] for launch in found[ONE]] == [1.0, 9.0]


def test_a_damaged_launch_is_named(experiment: Experiment) -> None:
    experiment.keep("launch-1", {"ms": {}})
    assert experiment.kept("launch-1") == {"ms": {}}
    assert experiment.kept("launch-2") is None
    path = experiment.path / KEPT / "launch-1.json"
    for content in ("{", "[]"):
        path.write_text(content)
        with pytest.raises(ConfigError, match="damaged or foreign") as caught:
            experiment.kept("launch-1")
        assert caught.value.report.value == str(path)
