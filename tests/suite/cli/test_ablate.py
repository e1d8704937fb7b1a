"""``sparse2d ablate`` end to end on small trainings, with launches that launch nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from suite.quality.library import KEPT, TRAININGS

SMALL = ("--replica-groups", "2", "--steps", "5", "--seeds", "2", "--tuning-seeds", "1", "--multiples", "1,2")
QUICK = (*SMALL, "--optimizers", "rowwise_adagrad,momentum_scaled_rowwise_adagrad", "--jobs", "1")


@pytest.mark.slow
def test_a_small_factorial(cli: Any) -> None:
    options = ("--replica-groups", "2", "--steps", "2", "--seeds", "2", "--tuning-seeds", "1", "--jobs", "1")
    done = cli("ablate", "smoke", *options, "--multiples", "1", "--optimizers", "rowwise_adagrad", "--json")

    document = done.document
    assert done.code == document["exit_code"] == 0
    assert (document["provenance"], document["seeds"]) == ("emulated", [0, 1])
    assert list(document["arms"]) == ["1d.rowwise_adagrad", "m2.rowwise_adagrad"]
    assert document["arms"]["m2.rowwise_adagrad"]["parity"]["verdict"] == "inconclusive"
    assert {ratio["replica_groups"] for ratio in document["moment_ratios"]} == {2}
    folder = Path(document["experiment"])
    assert {path.name for path in folder.iterdir()} == {
        *("environment.json", "options.json", "verdict.json", "learning_rates.png", "differences.png"),
        *(TRAININGS, KEPT),
    }


@pytest.mark.slow
def test_the_factorial_and_its_speed_and_going_on_with_it(
    cli: Any, launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    speed = ("--throughput", "--world-size", "2", "--launches", "3")
    document = cli("ablate", "smoke", *QUICK, *speed, "--json").document

    assert document["exit_code"] == 0
    assert set(document["effects"]) == {"layout.m2", "optimizer.m2", "layout:optimizer.m2"}
    found = document["throughput"]
    assert (found["provenance"], found["samples_to_target_provenance"]) == ("measured", "emulated")
    assert (found["world_size"], found["launches"], len(launched)) == (2, 3, 12)
    assert set(found["effects"]) == set(document["effects"])
    for cell in found["cells"].values():
        assert len(cell["per_launch_ms"]) == 3
        assert (cell["samples_to_target"] is None) == (cell["time_to_target_s"] is None)

    folder = Path(document["experiment"])
    assert len(list((folder / KEPT).iterdir())) == 12 + 1  # launches and moments
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.json")}
    victim = next((folder / TRAININGS).iterdir())
    victim.unlink()
    shown = cli("ablate", "smoke", *QUICK, *speed, "--resume", str(folder))
    assert shown.code == 0
    assert len(launched) == 12
    now = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.json")}
    assert {path for path in now if now[path] != before[path]} == {victim}
    assert "Effects on the step time" in shown.out
    assert "The same on the exposed time of components" in shown.out
    assert "by construction" in shown.out
    assert max(len(line) for line in shown.out.splitlines() if "rowwise" in line or "momentum" in line) <= 80


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (["--throughput", "--world-size", "3"], "world_size"),
        (["--throughput", "--launches", "0"], "launches"),
        (["--throughput", "--optimizers", "rowwise_adagrad"], "optimizers"),
        (["--throughput", "--steps", "1"], "steps"),
        (["--throughput", "--launcher", "slurm"], "launcher"),
        (["--throughput", "--placement", "sideways"], "layout.placement"),
        (["--throughput", "--launcher", "torchrun"], "launcher"),
        (["--launcher", "slurm"], "launcher"),
        (["--placement", "contiguous"], "placement"),
        (["--throughput", "--sync-interval", "1,2"], "sync_interval"),
        (["--sync-interval", "1,0"], "sync_interval"),
        (["--sync-interval", "often"], "sync_interval"),
        (["--sync-optimizer-state", "immediate,late"], "sync_optimizer_state"),
        (["--multiples", "0,1"], "multiples"),
        (["--replica-groups", "1"], "replica_groups"),
        (["--tuning-seeds", "0"], "tuning_seeds"),
    ],
)
def test_bad_input_is_one_error_and_trains_nothing(
    cli: Any, tmp_path: Path, options: list[str], field: str
) -> None:
    done = cli("ablate", "smoke", *QUICK, *options, "--json")

    assert (done.code, done.document["error"]["field"]) == (2, field)
    assert done.document["error"]["remedy"]
    assert list(tmp_path.iterdir()) == []
