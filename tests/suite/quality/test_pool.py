"""Trainings in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.environment import capture
from suite.errors import RunFailed
from suite.quality.library import Experiment, new_experiment, open_experiment
from suite.quality.pool import run_all
from suite.quality.spec import Training
from suite.quality.training import train
from tests.helpers.small_source import PROCESSES
from tests.suite.quality.results import BEGUN
from tests.suite.quality.test_virtual import small


def with_source(name: str, **changes: object) -> Training:
    training = small(2, steps=2, **changes)
    source = training.workload.data.model_copy(update={"source": f"tests.helpers.small_source:{name}"})
    return training.model_copy(update={"workload": training.workload.model_copy(update={"data": source})})


def experiment_of(training: Training, folder: Path) -> Experiment:
    return new_experiment(folder, training.workload, "parity", capture(None), BEGUN)


def test_two_jobs_are_two_processes_and_results_keep_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = tmp_path / "processes"
    processes.mkdir()
    monkeypatch.setenv(PROCESSES, str(processes))
    trainings = [with_source("Telling", seed=seed) for seed in (3, 1, 2, 0)]
    told: list[tuple[int, int]] = []
    experiment = experiment_of(trainings[0], tmp_path)
    found = run_all(trainings, experiment, 2, lambda *progress: told.append(progress))
    assert len(list(processes.iterdir())) == 2
    assert [result.training.seed for result in found] == [3, 1, 2, 0]
    assert told == [(done, 4) for done in range(5)]
    # What one process trains alone, to the last bit.
    assert found[1] == train(trainings[1])
    # All are there: nothing is trained again.
    assert run_all(trainings, experiment, 2, lambda *_: None) == found
    assert len(list(processes.iterdir())) == 3, "this process trained one, above"


def test_a_process_that_is_killed_costs_what_it_trained_alone(tmp_path: Path) -> None:
    fine, deadly = with_source("SmallSource"), with_source("Deadly")
    experiment = experiment_of(fine, tmp_path)
    run_all([fine], experiment, 1, lambda *_: None)
    with pytest.raises(RunFailed) as caught:
        run_all([fine, deadly], experiment, 2, lambda *_: None)
    assert caught.value.report.kind == "worker_died"
    assert str(experiment.path) in str(caught.value.report.remedy)
    assert set(experiment.finished) == {fine.training_hash}


def test_a_training_that_may_diverge_is_kept_as_one_that_did(tmp_path: Path) -> None:
    wild = small(2, steps=12)
    wild = wild.model_copy(
        update={"optimizer": wild.optimizer.model_copy(update={"name": "sgd", "learning_rate": 1e6})}
    )
    experiment = experiment_of(wild, tmp_path)
    with pytest.raises(RunFailed) as caught:
        train(wild)
    assert caught.value.report.kind == "non_finite_loss"
    (found,) = run_all([wild], experiment, 1, lambda *_: None, may_diverge=True)
    assert found.diverged == caught.value.report.message
    again = open_experiment(experiment.path, capture(None), BEGUN)
    assert again.finished == {wild.training_hash: found}


@pytest.mark.parametrize("source", ["Raising", pytest.param("Leaving", marks=pytest.mark.slow)])
def test_what_a_source_raises_is_told_whatever_it_is(source: str, tmp_path: Path) -> None:
    training = with_source(source)
    with pytest.raises(RunFailed) as caught:
        run_all([training], experiment_of(training, tmp_path), 1, lambda *_: None)
    report = caught.value.report
    assert report.kind == "training_raised"
    assert "M = 2, seed 3 raised" in report.message
    assert {"Raising": "Unfit: two", "Leaving": "SystemExit: 7"}[source] in report.message
    assert "(small_source.py, line " in report.message
