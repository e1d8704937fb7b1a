"""What an experiment keeps, and what it refuses to go on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.environment import capture
from suite.errors import ConfigError, RunFailed
from suite.quality.library import ENVIRONMENT, TRAININGS, new_experiment, open_experiment
from tests.suite.quality.results import result


def test_an_experiment_goes_on_with_what_it_has(tmp_path: Path) -> None:
    one = result(0, [0.6, 0.7])
    begun = new_experiment(tmp_path, one.training.workload, "parity", capture(None), {})
    begun.save(one)

    again = open_experiment(begun.path, capture(None), {})

    assert again.finished == {one.training.training_hash: one}


def test_settings_that_change_the_outcome_change_the_hash() -> None:
    training = result(0, [0.6]).training
    changes = [{"seed": 1}, {"steps": 2}, {"replica_groups": 2}, {"global_batch": 99}, {"curve_points": 2}]

    hashes = {training.training_hash} | {
        training.model_copy(update=change).training_hash for change in changes
    }

    assert len(hashes) == len(changes) + 1


def test_another_stack_is_refused(tmp_path: Path) -> None:
    here = capture(None)
    old = here.model_copy(update={"versions": here.versions | {"torch": "1.0"}})
    begun = new_experiment(tmp_path, result(0, [0.6]).training.workload, "parity", old, {})

    with pytest.raises(ConfigError, match=r"torch 1\.0") as refused:
        open_experiment(begun.path, here, {})
    assert refused.value.report.field == "resume"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    one = result(0, [0.6])
    begun = new_experiment(tmp_path, one.training.workload, "parity", capture(None), {})
    begun.save(one)
    file = begun.path / TRAININGS / f"{one.training.training_hash}.json"
    file.write_text(file.read_text()[:100])

    with pytest.raises(ConfigError, match="damaged") as refused:
        open_experiment(begun.path, capture(None), {})
    assert refused.value.report.value == str(file)


def test_options_that_were_begun_with_are_those_to_go_on_with(tmp_path: Path) -> None:
    workload = result(0, [0.6]).training.workload
    begun = new_experiment(tmp_path, workload, "parity", capture(None), {"multiples": [1.0, 2.0], "seeds": 5})

    def go_on(**options: object) -> str:
        return open_experiment(begun.path, capture(None), options).suffix

    assert go_on(multiples=[1.0, 2.0], seeds=5) == ""
    assert go_on(multiples=[1.0, 2.0], seeds=8) == "-8-seeds"
    for options, field in (
        ({"multiples": [1.0], "seeds": 5}, "multiples"),
        ({"multiples": [1.0, 2.0], "seeds": 4}, "seeds"),
        ({"multiples": [1.0, 2.0]}, "seeds"),
        ({"multiples": [1.0, 2.0], "seeds": 5, "eps": 0.1}, "eps"),
    ):
        with pytest.raises(ConfigError, match="was begun with") as refused:
            go_on(**options)
        assert refused.value.report.field == field


def test_no_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as refused:
        open_experiment(tmp_path, capture(None), {})
    assert refused.value.report.value == str(tmp_path / ENVIRONMENT)


def test_a_folder_that_vanished_is_one_error(tmp_path: Path) -> None:
    one = result(0, [0.6])
    begun = new_experiment(tmp_path, one.training.workload, "parity", capture(None), {})
    (begun.path / TRAININGS).rmdir()

    with pytest.raises(RunFailed, match="could not be saved"):
        begun.save(one)
