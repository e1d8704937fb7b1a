"""What asv finds in the folder, without asv running it."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from asv_runner.discovery import disc_benchmarks

from suite.metrics import METRICS
from workloads import asv_benchmarks
from workloads.asv_benchmarks.support import benchmark, sizes
from workloads.asv_benchmarks.support.benchmark import HIGHER, Benchmark, for_each_workload, metric
from workloads.asv_benchmarks.support.records import Measured
from workloads.asv_benchmarks.support.scaling import Scaling, efficiency
from workloads.asv_benchmarks.support.sizes import ONE_D, Layout

FOLDER = Path(asv_benchmarks.__file__).parent


@pytest.fixture(scope="module")
def found():
    """Every benchmark as asv's own discovery makes it, in the size of one workload."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(sizes.SIZE_VARIABLE, "smoke")
        patch.syspath_prepend(str(FOLDER.parent))
        yield {b.name: b for b in disc_benchmarks(str(FOLDER))}
        for name in [m for m in sys.modules if m.split(".")[0] == FOLDER.name]:
            del sys.modules[name]


def test_every_family_is_found_for_the_workload_and_nothing_else(found):
    families = {m.name for m in pkgutil.iter_modules([str(FOLDER)]) if not m.ispkg}
    assert {tuple(name.split(".")[:2]) for name in found} == {(family, "smoke") for family in families}


def test_what_is_better_when_higher_says_so_and_has_a_twin(found):
    for name, one in found.items():
        assert (one.direction == "higher") == name.endswith(HIGHER), name
        assert one.pretty_name.endswith(f"({one.direction} is better)")
        assert one.pretty_name.startswith("smoke: ")
    twins = {
        "track_samples_per_s": "track_step_ms",
        "track_efficiency": "track_time_over_ideal",
        "track_speed_over_1d": "track_step_time_over_1d",
        "track_auc": "track_normalized_entropy",
    }
    for name in [n for n in found if n.endswith(HIGHER)]:
        family, figure = name.removesuffix(HIGHER).rsplit(".", 1)
        assert f"{family}.{twins[figure]}" in found


def test_units_and_directions_are_those_of_the_suite(found):
    auc = found["quality.smoke.track_auc_higher_is_better"]
    speed = found["strong_scaling.smoke.track_samples_per_s_higher_is_better"]
    held = found["memory.smoke.track_bytes"]
    assert (speed.unit, speed.direction) == ("samples/s", METRICS["samples_per_s"].direction)
    assert (auc.unit, auc.direction) == ("ratio", METRICS["auc"].direction)
    assert held.unit == "bytes"


def test_the_version_is_the_hash_of_the_spec(found):
    from suite.catalog import load_workload

    assert {one.version for one in found.values()} == {load_workload("smoke").spec_hash}


def test_one_session_serves_all_families(found):
    assert len({one.setup_cache_key for one in found.values()}) == 1


def test_asvs_limit_comes_after_ours(found):
    limit = sizes.smoke().limit_s
    assert all(one.timeout > limit for one in found.values())
    assert found["strong_scaling.smoke.track_step_time_over_1d"].timeout > 2 * limit


def test_what_cannot_be_laid_out_is_left_out_beforehand(found):
    one = found["strong_scaling.smoke.track_step_ms"]
    assert [(t, repr(layout)) for t, layout in one._skip_tuples] == [(1, "2D reference_2d M=2")]


def test_asv_never_imports_torch():
    code = (
        "import sys, importlib, pkgutil, workloads.asv_benchmarks as a\n"
        "for m in pkgutil.walk_packages(a.__path__, a.__name__ + '.'): importlib.import_module(m.name)\n"
        "print('torch' in sys.modules, 'torchrec' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_metric_that_is_not_there_is_an_error_at_once():
    with pytest.raises(StopIteration):
        metric("speed_of_light")


def of_smoke(family, figures, monkeypatch):
    """A family's benchmarks of smoke, on figures given by (T, layout)."""
    monkeypatch.setenv(sizes.SIZE_VARIABLE, "smoke")

    def configuration(self, session, world_size, layout):
        return Measured("s", "", "smoke", "", "strong", layout.implementation, world_size,
                        layout.replica_groups, "", 1, False, metrics=figures[world_size, layout])  # fmt: skip

    monkeypatch.setattr(Benchmark, "configuration", configuration)
    return for_each_workload(family)["smoke"]()


TWO_D = Layout("reference_2d", 2)


def test_efficiency_is_over_one_rank_in_1d():
    assert efficiency(300.0, 100.0, 4) == 0.75


def test_speed_is_told_over_one_rank_and_over_1d(monkeypatch):
    figures = {
        (1, ONE_D): {"samples_per_s": [100.0]},
        (2, ONE_D): {"samples_per_s": [120.0]},
        (2, TWO_D): {"samples_per_s": [170.0, 150.0, 160.0]},
    }
    made = of_smoke(Scaling, figures, monkeypatch)
    assert made.track_efficiency_higher_is_better(None, 2, TWO_D) == 0.8
    assert made.track_time_over_ideal(None, 2, TWO_D) == 1.25
    assert made.track_speed_over_1d_higher_is_better(None, 2, TWO_D) == pytest.approx(160 / 120)
    assert made.track_step_time_over_1d(None, 2, TWO_D) == pytest.approx(120 / 160)


def test_several_launches_are_samples_and_what_was_not_measured_is_nan(monkeypatch):
    figures = {(2, TWO_D): {"samples_per_s": [170.0, 150.0]}, (1, ONE_D): {"step_ms": [4.0]}}
    made = of_smoke(Scaling, figures, monkeypatch)
    several = made.track_samples_per_s_higher_is_better(None, 2, TWO_D)
    assert several == {"samples": [170.0, 150.0], "number": 1}
    assert made.track_step_ms(None, 1, ONE_D) == 4.0
    assert math.isnan(made.track_step_ms(None, 2, TWO_D))


def test_families_are_abstract():
    for module in pkgutil.iter_modules([str(FOLDER)]):
        if not module.ispkg:
            content = vars(importlib.import_module(f"workloads.asv_benchmarks.{module.name}"))
            bases = [c for c in content.values() if inspect.isclass(c) and issubclass(c, Benchmark)]
            assert any(inspect.isabstract(base) for base in bases)
    assert inspect.isabstract(benchmark.Benchmark)


def test_of_a_wrong_size_asv_shows_all_that_there_is_to_say(monkeypatch):
    monkeypatch.setenv(sizes.SIZE_VARIABLE, "smok")
    with pytest.raises(
        ValueError, match=r"SPARSE2D_ASV_SIZE = 'smok': there is no such size\. Did you mean smoke\?"
    ):
        for_each_workload(Benchmark)
