"""``sparse2d parity`` end to end on real trainings, and what it refuses before the first."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from suite.catalog import load_workload
from suite.cli import parity
from suite.cli.lab import tell_start
from suite.quality.library import TRAININGS, Experiment
from workloads.data.synthetic import SyntheticClicks

QUICK = ("--seeds", "2", "--steps", "3", "--curve-points", "2", "--jobs", "1")


def test_two_seeds_of_three_steps_cannot_tell(cli, tmp_path: Path):
    done = cli("parity", "smoke", *QUICK, "--json")

    document = done.document
    assert done.code == document["exit_code"] == 1
    assert document["verdict"] == "inconclusive"
    assert (document["provenance"], document["seeds"]) == ("emulated", [0, 1])
    assert document["difference"].keys() == {"mean", "low", "high"}
    assert set(document["arms"]) == {"baseline", "candidate"}
    for arm in document["arms"].values():
        assert len(arm["auc"]["per_seed"]) == len(arm["normalized_entropy"]["per_seed"]) == 2
        assert [point["samples"] for point in arm["curve"]] == [512, 768]
    folder = Path(document["experiment"])
    assert len(list((folder / TRAININGS).iterdir())) == 4
    assert "does not divide" not in done.err

    # An experiment that was ended trains what it lacks, and comes to the same.
    victim = sorted((folder / TRAININGS).iterdir())[0]
    victim.unlink()
    again = cli("parity", "smoke", *QUICK, "--resume", str(folder), "--json")
    assert "training 3/4" in again.err
    assert victim.exists()
    assert again.document["arms"] == document["arms"]

    shown = cli("parity", "smoke", *QUICK, "--resume", str(folder))
    assert "Verdict: inconclusive" in shown.out
    assert re.search(
        r"^To tell, at this spread: the same command with --seeds \d+ --resume \S+-parity$",
        shown.out,
        re.MULTILINE,
    )
    table = [
        line for line in shown.out.splitlines() if line.startswith(("AUC", "auc ", "normalized entropy"))
    ]
    assert max(map(len, table)) <= 80


@pytest.mark.parametrize(
    ("options", "field", "then"),
    [
        (["--steps", "2"], "steps", "3"),
        (["--replica-groups", "2"], "replica_groups", "4"),
        (["--learning-rate", "0.5"], "learning_rate", "0.04"),
        (["--optimizer", "sgd"], "optimizer", "momentum_scaled_rowwise_adagrad"),
        (["--sync-interval", "2"], "sync_interval", "1"),
        (["--seeds", "1"], "seeds", "2"),
    ],
)
def test_an_experiment_goes_on_as_it_was_begun(cli, begun: Path, options: list[str], field: str, then: str):
    before = contents(begun)
    done = cli("parity", "smoke", *QUICK, *options, "--resume", str(begun), "--json")

    error = done.document["error"]
    assert (done.code, error["field"]) == (2, field)
    assert f"begun with {then}" in error["message"]
    assert contents(begun) == before


def test_groups_of_unlike_sizes_are_told(tmp_path: Path):
    console = Console(file=io.StringIO())
    tell_start(Experiment(tmp_path, {}), [2, 7], 256, console)
    assert isinstance(console.file, io.StringIO)
    notes = [line for line in console.file.getvalue().splitlines() if line.startswith("Note")]
    assert len(notes) == 1
    assert "M = 7 does not divide the global batch of 256: its groups have 36 or 37 samples" in notes[0]


def test_another_verb_or_workload_does_not_go_on_with_it(cli, begun: Path):
    done = cli("ablate", "smoke", "--steps", "3", "--resume", str(begun), "--json")
    assert (done.code, done.document["error"]["field"]) == (2, "verb")
    done = cli("parity", "smoke,rows=64", *QUICK, "--resume", str(begun), "--json")
    assert (done.code, done.document["error"]["field"]) == (2, "workload")


def test_other_data_does_not_go_on_with_it(cli, begun: Path, monkeypatch: pytest.MonkeyPatch):
    described = SyntheticClicks.describe

    def other(source: SyntheticClicks) -> dict[str, object]:
        return described(source) | {"fingerprint": "of another folder"}

    monkeypatch.setattr(SyntheticClicks, "describe", other)
    done = cli("parity", "smoke", *QUICK, "--resume", str(begun), "--json")
    assert (done.code, done.document["error"]["field"]) == (2, "data")


def test_what_a_data_source_prints_is_not_on_stdout(cli, monkeypatch: pytest.MonkeyPatch):
    described = SyntheticClicks.describe

    def talkative(source: SyntheticClicks) -> dict[str, object]:
        print("hello from the data")
        return described(source)

    monkeypatch.setattr(SyntheticClicks, "describe", talkative)
    done = cli("parity", "smoke", "--seeds", "0", "--json")
    assert done.document["error"]["field"] == "seeds"
    done = cli("parity", "smoke", *QUICK, "--resume", "nowhere", "--json")
    assert done.document["error"]["field"] == "resume"
    assert "hello from the data" in done.err


def test_margins_that_are_changed_do_not_go_on_with_it(cli, begun: Path, monkeypatch: pytest.MonkeyPatch):
    wider = load_workload("smoke")
    wider = wider.model_copy(update={"parity": wider.parity.model_copy(update={"auc_margin": 0.1})})
    monkeypatch.setattr(parity, "load_workload", lambda *_: wider)
    done = cli("parity", "smoke", *QUICK, "--resume", str(begun), "--json")
    assert (done.code, done.document["error"]["field"]) == (2, "parity")


def test_seeds_may_be_added_and_the_first_verdict_stays(cli, begun: Path):
    before = contents(begun)
    done = cli("parity", "smoke", *QUICK, "--seeds", "3", "--resume", str(begun), "--json")

    assert done.document["seeds"] == [0, 1, 2]
    after = contents(begun)
    assert after.items() >= before.items()
    added = sorted(path.name for path in after.keys() - before.keys() if path.parent == begun)
    assert added == ["verdict-3-seeds.json"]
    assert len(list((begun / TRAININGS).iterdir())) == 6


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one experiment is kept, once a test has trained it."""
    return tmp_path_factory.mktemp("ended") / "experiment"


@pytest.fixture
def begun(cli, ended: Path, tmp_path: Path) -> Path:
    """An experiment of two seeds that has ended, for this test alone."""
    if not ended.exists():
        shutil.copytree(cli("parity", "smoke", *QUICK, "--json").document["experiment"], ended)
    return shutil.copytree(ended, tmp_path / "begun")


def contents(folder: Path) -> dict[Path, bytes]:
    """All files of an experiment."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (["--seeds", "0"], "seeds"),
        (["--jobs", "0"], "jobs"),
        (["--replica-groups", "0"], "replica_groups"),
        (["--replica-groups", "1000"], "replica_groups"),
        (["--replica-groups", "8", "--global-batch", "4"], "replica_groups"),
        (["--optimizer", "nadam"], "optimizer.name"),
        (["--optimizer", "adam", "--scale", "4"], "optimizer.scale"),
        (["--learning-rate", "-1"], "optimizer.learning_rate"),
        (["--eps", "0"], "optimizer.eps"),
        (["--steps", "0"], "steps"),
        (["--curve-points", "0"], "curve_points"),
        (["--target-auc", "7"], "target_auc"),
        (["--target-auc", "nan"], "target_auc"),
        (["--sync-interval", "0"], "sync_interval"),
        (["--sync-optimizer-state", "late"], "sync_optimizer_state"),
        (["--optimizer", "sgd", "--sync-optimizer-state", "delayed"], "sync_optimizer_state"),
        (["--resume", "nowhere"], "resume"),
        (["--data", "nowhere"], "data.location"),
    ],
)
def test_bad_input_is_one_error_and_trains_nothing(cli, tmp_path: Path, options: list[str], field: str):
    done = cli("parity", "smoke", *options, "--json")

    assert (done.code, done.document["error"]["field"]) == (2, field)
    assert done.document["error"]["remedy"]
    assert list(tmp_path.iterdir()) == []


def test_a_diverged_training_is_named(cli):
    wild = ("--optimizer", "sgd", "--learning-rate", "1e6", "--steps", "12")
    done = cli("parity", "smoke", *QUICK, *wild, "--json")

    assert done.code == 3
    assert done.document["error"]["kind"] == "non_finite_loss"
    assert "M = 4" in done.document["error"]["message"]
