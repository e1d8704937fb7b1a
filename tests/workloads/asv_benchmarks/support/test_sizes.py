from __future__ import annotations

import pytest

from suite.catalog import load_workload
from suite.cli.options import RunOptions
from suite.errors import ConfigError
from suite.session import plan_sweep
from workloads.asv_benchmarks.support import sizes
from workloads.asv_benchmarks.support.sizes import ONE_D, Configuration, Layout


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    for name in (sizes.SIZE_VARIABLE, sizes.OPTIONS_VARIABLE, "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sizes, "available_cores", lambda: 2)
    monkeypatch.setattr(sizes, "visible_gpus", lambda: 0)


def test_quick_is_the_default_and_what_a_sweep_runs():
    size = sizes.chosen()
    expected = [
        (run.workload.name, run.implementation, run.layout.world_size, run.layout.replica_groups)
        for name in ("dlrm_small", "movielens_100k")
        for run in plan_sweep(RunOptions().build(load_workload(name)), [1, 2, 4], [1, 2, 4])
    ]
    found = [
        (c.workload, c.layout.implementation, c.world_size, c.layout.replica_groups)
        for c in size.configurations("strong")
    ]
    assert sorted(found) == sorted(expected)
    assert len(found) == 12


def test_quick_adds_one_launch_a_workload_for_weak_scaling():
    assert len(sizes.chosen().every_configuration()) == 14


@pytest.mark.parametrize("name", sizes.SIZES)
def test_a_sweep_runs_what_belongs_together_and_nothing_else(name):
    size = sizes.SIZES[name]()
    for one in size.every_configuration():
        together = size.beside(one)
        assert one in together
        if len(together) > 1:
            options = sizes.sweep_arguments(together)[2:]
            given = dict(zip(options[::2], options[1::2], strict=True))
            base = RunOptions(scaling=given["--scaling"]).build(load_workload(one.workload))
            numbers = (list(map(int, given[o].split(","))) for o in ("--world-sizes", "--replica-groups"))
            swept = {
                (r.implementation, r.layout.world_size, r.layout.replica_groups, r.layout.placement)
                for r in plan_sweep(base, *numbers)
            }
            assert swept == {
                (c.layout.implementation, c.world_size, c.layout.replica_groups, c.layout.placement)
                for c in together
            }


@pytest.mark.parametrize("name", sizes.SIZES)
def test_all_that_a_size_holds_can_be_built(name):
    """Each configuration's options give a valid run."""
    for scaling in ("strong", "weak"):
        for one in sizes.SIZES[name]().configurations(scaling):
            options = one.arguments()[2:]
            given = dict(zip(options[::2], options[1::2], strict=True))
            run = RunOptions(
                implementation=given["--implementation"],
                placement=given.get("--placement"),
                sync_interval=int(given.get("--sync-interval", 1)),
                scaling=given["--scaling"],
            ).build(load_workload(one.workload), int(given["--world-size"]), int(given["--replica-groups"]))
            assert run.layout.world_size == one.world_size


def test_lists_hold_what_is_there(monkeypatch):
    monkeypatch.setattr(sizes, "available_cores", lambda: 16)
    assert sizes.full().world_sizes["strong"] == (1, 2, 4, 8)
    assert sizes.cluster().world_sizes["strong"] == (1, 2, 4, 8, 16)
    monkeypatch.setenv("SLURM_NTASKS", "6")
    assert sizes.cluster().world_sizes["strong"] == (1, 2, 4)
    monkeypatch.setenv(sizes.SIZE_VARIABLE, "cluster:64")
    assert sizes.chosen().world_sizes["strong"][-1] == 64
    assert Layout("reference_2d", 64) in sizes.chosen().layouts


def test_on_gpus_there_are_as_many_ranks_and_torchrecs_own_2d(monkeypatch):
    monkeypatch.setattr(sizes, "visible_gpus", lambda: 2)
    monkeypatch.setenv(sizes.OPTIONS_VARIABLE, "--device cuda")
    size = sizes.quick()
    assert size.world_sizes["strong"] == (1, 2)
    assert [layout.implementation for layout in size.layouts] == [
        "baseline_1d",
        "reference_2d",
        "torchrec_dmp_collection",
    ]


@pytest.mark.parametrize(
    "given", ["--implementation mine:Two --device cpu", "--device cpu --implementation=mine:Two"]
)
def test_ones_own_implementation_takes_the_place_of_the_reference(given, monkeypatch):
    monkeypatch.setenv(sizes.OPTIONS_VARIABLE, given)
    assert [repr(layout) for layout in sizes.smoke().layouts] == ["1D baseline_1d", "2D mine:Two M=2"]
    assert sizes.options() == ["--device", "cpu"]
    swept = sizes.sweep_arguments(sizes.smoke().beside(Configuration("smoke", "strong", 2, ONE_D)))
    assert swept[-2:] == ["--implementation", "mine:Two"]


@pytest.mark.parametrize("given", ["--slurm-nodes 4", "--ranks-per-host=4"])
def test_all_of_a_size_has_as_many_ranks_on_a_host(given, monkeypatch):
    monkeypatch.setenv(sizes.SIZE_VARIABLE, "cluster:16")
    monkeypatch.setenv(sizes.OPTIONS_VARIABLE, f"--launcher slurm {given} --slurm-time 60")
    rest = ["--launcher", "slurm", "--slurm-time", "60", "--ranks-per-host"]
    assert sizes.options() == sizes.options(16) == sizes.options(4) == [*rest, "4"]
    # One that is run alone, and is smaller than a host.
    assert sizes.options(2) == [*rest, "2"]


@pytest.mark.parametrize("given", ["3", "0", "4 --ranks-per-host 8"])
def test_ranks_that_cannot_be_spread_over_hosts(given, monkeypatch):
    monkeypatch.setenv(sizes.SIZE_VARIABLE, "cluster:16")
    monkeypatch.setenv(sizes.OPTIONS_VARIABLE, f"--slurm-nodes {given}")
    with pytest.raises(ConfigError, match="16 ranks cannot be spread evenly"):
        sizes.chosen()


def test_placement_is_told_apart_only_where_it_differs():
    other = Layout("reference_2d", 2, placement="contiguous")
    assert other.fits(4)
    assert not other.fits(2), "groups of one rank"
    assert not Layout("reference_2d", 4).fits(2)


def test_names_are_told_apart():
    layouts = sizes.full().layouts
    assert len({repr(layout) for layout in layouts}) == len(layouts)
    assert repr(ONE_D) == "1D baseline_1d"
    assert repr(Layout("reference_2d", 2, "contiguous", 8)) == "2D reference_2d M=2 contiguous k=8"


def test_equal_global_batches_are_launched_once():
    # Of smoke: 256 in all, 128 a rank.
    assert Configuration("smoke", "weak", 2, ONE_D).as_launched().scaling == "strong"
    assert Configuration("smoke", "weak", 1, ONE_D).as_launched().scaling == "weak"


@pytest.mark.parametrize("wrong", ["quik", "cluster:none", "cluster:0", "quick:4", ""])
def test_a_wrong_size_is_named(wrong, monkeypatch):
    monkeypatch.setenv(sizes.SIZE_VARIABLE, wrong)
    with pytest.raises(ConfigError, match=r"no such size|no number of ranks") as caught:
        sizes.chosen()
    assert caught.value.report.field == sizes.SIZE_VARIABLE


@pytest.mark.parametrize("name", sizes.SIZES)
def test_options_with_an_open_quote_are_named(name, monkeypatch):
    monkeypatch.setenv(sizes.SIZE_VARIABLE, name)
    monkeypatch.setenv(sizes.OPTIONS_VARIABLE, "--device 'cpu")
    with pytest.raises(ConfigError, match="No closing quotation") as caught:
        sizes.chosen()
    assert caught.value.report.field == sizes.OPTIONS_VARIABLE
