"""What an experiment keeps, and what it refuses to go on from."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from suite.environment import capture
from suite.errors import ConfigError, RunFailed
from suite.quality.library import ENVIRONMENT, OPTIONS, TRAININGS, new_experiment, open_experiment
from tests.suite.quality.results import BEGUN, result


def test_an_experiment_goes_on_with_what_it_has(tmp_path: Path) -> None:
    one = result(0, [0.6, 0.7])
    begun = new_experiment(tmp_path, one.training.workload, "parity", capture(None), BEGUN)
    begun.save(one)

    again = open_experiment(begun.path, capture(None), BEGUN)

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
    begun = new_experiment(tmp_path, result(0, [0.6]).training.workload, "parity", old, BEGUN)

    with pytest.raises(ConfigError, match=r"torch 1\.0") as refused:
        open_experiment(begun.path, here, BEGUN)
    assert refused.value.report.field == "resume"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    one = result(0, [0.6])
    begun = new_experiment(tmp_path, one.training.workload, "parity", capture(None), BEGUN)
    begun.save(one)
    file = begun.path / TRAININGS / f"{one.training.training_hash}.json"
    file.write_text(file.read_text()[:100])

    with pytest.raises(ConfigError, match="damaged") as refused:
        open_experiment(begun.path, capture(None), BEGUN)
    assert refused.value.report.value == str(file)


def test_options_that_were_begun_with_are_those_to_go_on_with(tmp_path: Path) -> None:
    workload = result(0, [0.6]).training.workload
    begun = new_experiment(
        tmp_path, workload, "parity", capture(None), BEGUN | {"multiples": [1.0, 2.0], "seeds": 5}
    )

    def go_on(**options: object) -> str:
        return open_experiment(begun.path, capture(None), {**BEGUN, **options}).suffix

    assert go_on(multiples=[1.0, 2.0], seeds=5) == ""
    assert go_on(multiples=[1.0, 2.0], seeds=8) == "-8-seeds"
    for options, field in (
        ({"multiples": [1.0], "seeds": 5}, "multiples"),
        ({"multiples": [1.0, 2.0], "seeds": 4}, "seeds"),
        ({"seeds": 5}, "multiples"),
        ({"multiples": [1.0, 2.0], "seeds": 5, "eps": 0.1}, "eps"),
    ):
        with pytest.raises(ConfigError, match="was begun with") as refused:
            go_on(**options)
        assert refused.value.report.field == field


@pytest.mark.parametrize("content", ["{}", "[]", '{"verb": "parity", "workload": "small", "seeds": true}'])
def test_what_it_was_begun_with_cannot_be_made_again(tmp_path: Path, content: str) -> None:
    begun = new_experiment(tmp_path, result(0, [0.6]).training.workload, "parity", capture(None), BEGUN)
    (begun.path / OPTIONS).write_text(content)
    with pytest.raises(ConfigError, match="damaged") as refused:
        open_experiment(begun.path, capture(None), BEGUN)
    assert "begin anew" in str(refused.value.report.remedy)
    (begun.path / OPTIONS).unlink()
    with pytest.raises(ConfigError, match="cannot be read") as refused:
        open_experiment(begun.path, capture(None), BEGUN)
    assert "begin anew" in str(refused.value.report.remedy)


def test_a_training_that_is_not_whole_or_lies_under_another_name_is_refused(tmp_path: Path) -> None:
    one = result(0, [0.6, 0.7])
    begun = new_experiment(tmp_path, one.training.workload, "parity", capture(None), BEGUN)
    for name, changed, says in (
        (one.training.training_hash, one.model_copy(update={"curve": one.curve[:1]}), "not whole"),
        (one.training.training_hash, one.model_copy(update={"curve": ()}), "not whole"),
        ("zz", one, "it holds the training"),
    ):
        file = begun.path / TRAININGS / f"{name}.json"
        file.write_text(changed.model_dump_json())
        with pytest.raises(ConfigError, match=says) as refused:
            open_experiment(begun.path, capture(None), BEGUN)
        assert refused.value.report.value == str(file)
        file.unlink()
    begun.save(one)
    assert list(open_experiment(begun.path, capture(None), BEGUN).finished.values()) == [one]


def test_a_folder_without_trainings_gets_them_and_one_that_cannot_be_written_is_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = new_experiment(tmp_path, result(0, [0.6]).training.workload, "parity", capture(None), BEGUN)
    (begun.path / TRAININGS).rmdir()
    open_experiment(begun.path, capture(None), BEGUN).save(result(0, [0.6]))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="cannot be written") as refused:
        open_experiment(begun.path, capture(None), BEGUN)
    assert refused.value.report.field == "resume"


def test_a_verdict_that_says_otherwise_stays(tmp_path: Path) -> None:
    begun = new_experiment(tmp_path, result(0, [0.6]).training.workload, "parity", capture(None), BEGUN)
    first = begun.conclude({"verdict": "worse"})
    assert begun.conclude({"verdict": "worse"}) == first
    assert begun.conclude({"verdict": "better"}).name == "verdict-2.json"
    assert json.loads(first.read_text()) == {"verdict": "worse"}


def test_no_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as refused:
        open_experiment(tmp_path, capture(None), BEGUN)
    assert refused.value.report.value == str(tmp_path / ENVIRONMENT)


def test_a_folder_that_vanished_is_one_error(tmp_path: Path) -> None:
    one = result(0, [0.6])
    begun = new_experiment(tmp_path, one.training.workload, "parity", capture(None), BEGUN)
    (begun.path / TRAININGS).rmdir()

    with pytest.raises(RunFailed, match="could not be saved"):
        begun.save(one)
