"""What is benchmarked: workloads, world sizes and layouts that this machine or cluster can run.

One setting chooses: the environment variable ``SPARSE2D_ASV_SIZE``, one of ``SIZES``. asv runs the product of
the lists, so they hold nothing that cannot run here; a T that an M does not divide is skipped beforehand.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from suite.catalog import load_workload
from suite.environment import available_cores, visible_gpus
from suite.errors import ConfigError, did_you_mean
from suite.session import SWEEP_1D
from suite.spec import LayoutSpec, RunSpec

SIZE_VARIABLE = "SPARSE2D_ASV_SIZE"
#: Further options of ``sparse2d run``, for every configuration: the device, the launcher and what it needs.
#: An implementation among them takes the place of the reference in 2D.
OPTIONS_VARIABLE = "SPARSE2D_ASV_OPTIONS"

Scaling = Literal["strong", "weak"]
_PLACEMENT = LayoutSpec.model_fields["placement"].default
_REFERENCE = RunSpec.model_fields["implementation"].default


@dataclass(frozen=True)
class Layout:
    """An implementation with M replica groups; its ``repr`` is what asv shows and keeps."""

    implementation: str
    replica_groups: int
    placement: str = _PLACEMENT
    sync_interval: int = 1

    def __repr__(self) -> str:
        if self.replica_groups == 1:
            return f"1D {self.implementation}"
        placement = "" if self.placement == _PLACEMENT else f" {self.placement}"
        interval = "" if self.sync_interval == 1 else f" k={self.sync_interval}"
        return f"2D {self.implementation} M={self.replica_groups}{placement}{interval}"

    def fits(self, world_size: int) -> bool:
        """Whether T ranks can be laid out like this, and no other layout is the same thing."""
        if world_size % self.replica_groups:
            return False
        # Groups of one rank, or one group, are the same in every placement.
        return self.placement == _PLACEMENT or 1 < self.replica_groups < world_size


ONE_D = Layout(SWEEP_1D, 1)


@dataclass(frozen=True)
class Configuration:
    """One launch, or several alike: what one run record holds."""

    workload: str
    scaling: Scaling
    world_size: int
    layout: Layout

    def __str__(self) -> str:
        return f"{self.workload}, {self.scaling} scaling, T={self.world_size}, {self.layout}"

    def as_launched(self) -> Configuration:
        """Strong in place of weak scaling where both train the same global batch, so that it runs once."""
        batch = load_workload(self.workload).batch
        same = self.world_size * batch.per_rank == batch.global_size
        return Configuration(self.workload, "strong", self.world_size, self.layout) if same else self

    def arguments(self) -> list[str]:
        """Those that make ``sparse2d run`` run it."""
        layout = self.layout
        of_2d = ["--placement", layout.placement, "--sync-interval", str(layout.sync_interval)]
        return [
            *("run", self.workload),
            *("--implementation", layout.implementation),
            *("--world-size", str(self.world_size)),
            *("--replica-groups", str(layout.replica_groups)),
            *(of_2d if layout.replica_groups > 1 else []),
            *("--scaling", self.scaling),
        ]


def sweep_arguments(together: Sequence[Configuration]) -> list[str]:
    """Those that make ``sparse2d sweep`` run configurations that belong together."""

    def listed(numbers: set[int]) -> str:
        return ",".join(map(str, sorted(numbers)))

    return [
        *("sweep", together[0].workload),
        *("--world-sizes", listed({c.world_size for c in together})),
        *("--replica-groups", listed({c.layout.replica_groups for c in together})),
        *("--scaling", together[0].scaling),
        *("--implementation", _in_2d()),
    ]


@dataclass(frozen=True)
class Size:
    """What one size runs.

    Attributes:
        workloads: as the command line takes them.
        world_sizes: of strong and of weak scaling.
        layouts: 1D first: what 2D is compared with.
        launches: of each configuration: the samples of the statistics.
        limit_s: seconds that one configuration may take, all its launches together; those that are run
            together share them. Beyond them they count as failed, and the others go on.
    """

    workloads: tuple[str, ...]
    world_sizes: Mapping[Scaling, tuple[int, ...]]
    layouts: tuple[Layout, ...]
    launches: int
    limit_s: float

    def every_configuration(self) -> set[Configuration]:
        """All that are launched."""
        return {c.as_launched() for kind in self.world_sizes for c in self.configurations(kind)}

    def beside(self, one: Configuration) -> list[Configuration]:
        """What one sweep runs together with a configuration that is to be launched, itself included.

        A sweep loads the stack once for all of them, which is seconds for each. It knows no other placements
        and intervals, and no second implementation: those are run one by one.
        """
        plain = [
            layout for layout in self.layouts if layout in (ONE_D, Layout(_in_2d(), layout.replica_groups))
        ]
        if one.layout not in plain:
            return [one]
        alike = self.configurations(one.scaling)
        return [c for c in alike if c.workload == one.workload and c.layout in plain and c == c.as_launched()]

    def configurations(self, scaling: Scaling) -> Iterator[Configuration]:
        """All of one kind of scaling, in the order of a table."""
        for workload in self.workloads:
            for world_size in self.world_sizes[scaling]:
                for layout in self.layouts:
                    if layout.fits(world_size):
                        yield Configuration(workload, scaling, world_size, layout)


def smoke() -> Size:
    """Does it run at all? Seconds."""
    return Size(("smoke",), {"strong": (1, 2), "weak": (1, 2)}, _layouts(2), launches=1, limit_s=120)


def quick() -> Size:
    """What ``make bench`` runs: under five minutes on two cores.

    Weak scaling stops at T = 2, which is there already: a rank's batch is half of the global one.
    """
    return Size(
        ("dlrm_small", "movielens_100k"),
        {"strong": _up_to(min(4, ranks())), "weak": _up_to(min(2, ranks()))},
        _layouts(min(4, ranks())),
        launches=1,
        limit_s=300,
    )


def full() -> Size:
    """Every workload that a workstation holds, up to 8 ranks, placements, sync intervals, five launches."""
    most = min(8, ranks())
    return Size(
        ("dlrm_small", "movielens_100k", "ctr_zipf", "lm_vocabulary", "dlrm_dcnv2_criteo"),
        {"strong": _up_to(most), "weak": _up_to(most)},
        (*_layouts(most), *_variants(most)),
        launches=5,
        limit_s=3600,
    )


def cluster() -> Size:
    """As many ranks as the Slurm allocation has that it is called in, else as this machine can run.

    ``cluster:R`` says how many there are, where the launcher asks for them itself.
    """
    most = ranks()
    return Size(
        ("dlrm_small", "ctr_zipf", "dlrm_dcnv2_criteo"),
        {"strong": _up_to(most), "weak": _up_to(most)},
        (*_layouts(most), *_variants(most)),
        launches=5,
        limit_s=7200,
    )


SIZES: Mapping[str, Callable[[], Size]] = {f.__name__: f for f in (quick, full, cluster, smoke)}


def chosen() -> Size:
    """The size that ``SPARSE2D_ASV_SIZE`` names; ``quick`` where it is not set.

    Raises:
        ConfigError: there is no such size, or the options cannot be read.
    """
    name, ranks_given = _setting()
    if name not in SIZES or (ranks_given is not None and name != "cluster"):
        raise ConfigError(
            SIZE_VARIABLE,
            os.environ.get(SIZE_VARIABLE),
            "there is no such size.",
            f"{did_you_mean(name, SIZES)}Use one of {list(SIZES)}, or cluster:R for R ranks.",
        )
    options()  # refused here and not once for each figure
    return SIZES[name]()


def options(most: int | None = None) -> list[str]:
    """Further options of ``sparse2d run`` and ``sweep``, from ``SPARSE2D_ASV_OPTIONS``.

    All that one size runs has as many ranks on a host, so that its figures can be compared: ``--slurm-nodes``
    becomes the ``--ranks-per-host`` that it means for as many ranks as there may be.

    Args:
        most: the largest world size that they are for: a host has no more ranks than that. None: any.

    Raises:
        ConfigError: a quote in it is not closed, or so many ranks cannot be spread over so many hosts.
    """
    others = _parsed()[1]
    hosts = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    hosts.add_argument("--ranks-per-host", type=int)
    hosts.add_argument("--slurm-nodes", type=int)
    try:
        given, rest = hosts.parse_known_args(others)
    except argparse.ArgumentError:
        return others  # sparse2d says what is wrong with it
    on_host, nodes = given.ranks_per_host, given.slurm_nodes
    if nodes is not None:
        if nodes < 1 or ranks() % nodes or on_host not in (None, ranks() // nodes):
            raise ConfigError(
                OPTIONS_VARIABLE,
                f"--slurm-nodes {nodes}",
                f"{ranks()} ranks cannot be spread evenly over that many hosts"
                + (f", {on_host} on each." if on_host is not None else "."),
                f"Say how many ranks there are with {SIZE_VARIABLE}=cluster:R, a multiple of it.",
            )
        on_host = ranks() // nodes
    if on_host is None:
        return others
    return [*rest, "--ranks-per-host", str(on_host if most is None else min(on_host, most))]


def ranks() -> int:
    """How many ranks there may be: those named, the allocation's, the GPUs, or the cores but at least four.

    Four ranks on fewer cores take turns, which the records say; what is sent, held and learnt is the same.

    Raises:
        ConfigError: ``cluster:R`` with an R that is no positive whole number.
    """
    _, given = _setting()
    if given is not None:
        if not given.isdecimal() or int(given) < 1:
            raise ConfigError(SIZE_VARIABLE, f"cluster:{given}", "this is no number of ranks.",
                              "Write it like cluster:16.")  # fmt: skip
        return int(given)
    if (tasks := os.environ.get("SLURM_NTASKS", "")).isdecimal():
        return max(1, int(tasks))
    return max(1, visible_gpus()) if _on_gpus() else max(4, available_cores())


def _setting() -> tuple[str, str | None]:
    name, separator, given = os.environ.get(SIZE_VARIABLE, "quick").partition(":")
    return name, given if separator else None


def _on_gpus() -> bool:
    given = _parsed()[1]
    return ("--device", "cuda") in pairwise(given) or "--device=cuda" in given


def _in_2d() -> str:
    return _parsed()[0] or _REFERENCE


def _parsed() -> tuple[str | None, list[str]]:
    """The implementation that is asked for, and the other options."""
    implementation, others = None, []
    given = os.environ.get(OPTIONS_VARIABLE, "")
    try:
        words = iter(shlex.split(given))
    except ValueError as error:
        raise ConfigError(
            OPTIONS_VARIABLE, given, f"its words cannot be told apart: {error}.", "Quote it as in a shell."
        ) from error
    for word in words:
        name, separator, value = word.partition("=")
        if name == "--implementation":
            implementation = value if separator else next(words, None)
        else:
            others.append(word)
    return implementation, others


def _up_to(most: int) -> tuple[int, ...]:
    return tuple(2**i for i in range(most.bit_length()))


def _layouts(most: int) -> tuple[Layout, ...]:
    two_d = dict.fromkeys([_in_2d(), *(["torchrec_dmp_collection"] if _on_gpus() else [])])
    return (ONE_D, *(Layout(i, m) for i in two_d for m in _up_to(most)[1:]))


def _variants(most: int) -> tuple[Layout, ...]:
    """Where ranks sit, and how often replicas are averaged: two groups each."""
    if most < 4:
        return ()
    other = "contiguous" if _PLACEMENT == "interleaved" else "interleaved"
    return Layout(_in_2d(), 2, placement=other), Layout(_in_2d(), 2, sync_interval=4)
