"""How second moments grow in virtual groups."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from suite.environment import capture
from suite.quality import moments
from suite.quality.library import Experiment, new_experiment, open_experiment
from suite.quality.moments import BUCKETS, MomentRatio, grow, kept_moment_ratios, moment_ratios
from suite.quality.spec import Training, VirtualOptimizer
from suite.spec import DenseOptimizerSpec
from tests.helpers.training import TABLES, global_batch
from tests.suite.quality.results import BEGUN
from tests.suite.quality.test_virtual import STEPS, small


def test_a_row_that_one_group_alone_meets_grows_m_times_as_fast() -> None:
    """With a learning rate of nearly 0 both see the same gradients, and each sample is a group of its own.

    A row that one sample of each step holds has gradient g / G in 1D, and M g / G in its one group: its
    moment grows by M^2 g^2 / G^2 there and is averaged with M - 1 groups that do not grow. M times as fast.
    """
    still = VirtualOptimizer(learning_rate=1e-9, dense=DenseOptimizerSpec(name="sgd", learning_rate=1e-9))
    one, many = (
        small(1).model_copy(update={"optimizer": still, "replica_groups": groups}) for groups in (1, 24)
    )

    ratios = moment_ratios(one, [many])

    assert [r.touched_from for r in ratios] == list(BUCKETS)
    assert {(r.replica_groups, r.group_batch) for r in ratios} == {(24, 1.0)}
    rare = [r for r in ratios if r.touched_from < 0.9 and r.high is not None]
    assert rare
    # Rows that several samples of a step hold grow by the square of a sum in 1D: M only in the middle.
    medians = [r.median for r in ratios if r.median is not None]
    assert len(medians) == 2
    assert medians == pytest.approx([24, 24], rel=0.02)
    before, after = grow(one).moments, grow(many).moments
    alone = [after[table][row] / before[table][row] for table, row in _rows_met_alone()]
    assert len(alone) >= 10
    assert alone == pytest.approx([24] * len(alone), rel=1e-5)  # float32


def test_what_was_trained_once_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, many = small(1), small(1).model_copy(update={"replica_groups": 2})
    experiment = new_experiment(tmp_path, one.workload, "ablate", capture(None), BEGUN)
    told: list[tuple[int, int]] = []

    def ratios(other: Training, experiment: Experiment) -> list[MomentRatio]:
        return kept_moment_ratios(one, [other], experiment, 2, lambda *counts: told.append(counts))

    found = ratios(many, experiment)
    assert found == moment_ratios(one, [many])  # what two processes train is what this one does
    assert told == [(0, 2), (1, 2), (2, 2)]
    again = open_experiment(experiment.path, capture(None), BEGUN)
    monkeypatch.setattr(moments, "side_by_side", None)
    assert ratios(many, again) == found
    with pytest.raises(TypeError):  # another training is not what was kept
        ratios(many.model_copy(update={"replica_groups": 4}), again)


def _rows_met_alone() -> list[tuple[str, int]]:
    """Of the small model: the rows that some step holds, and none in more than one sample."""
    most: Counter[tuple[str, int]] = Counter()
    for step in range(STEPS):
        batch = global_batch(step, 24)
        for table in TABLES:
            bags = zip(*(batch.bags[feature] for feature in table["features"]), strict=True)
            held = Counter((table["name"], row) for of_sample in bags for row in set().union(*of_sample))
            most |= held  # the larger count of each
    return [row for row, samples in most.items() if samples == 1]
