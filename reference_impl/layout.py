"""Which rank holds what: pure integers, no torch.

T ranks form M replica groups of N = T / M ranks. Inside a group (the *sharding group*) the embedding
tables are sharded; the ranks that hold the same shard in different groups form a *replica set* and
average it. M = 1 is plain 1D sharding.

Two placements exist (TorchRec's ``use_inter_host_allreduce`` chooses between them). For T = 8, M = 2:

    interleaved   groups {0 2 4 6} {1 3 5 7}   replicas are neighbours: the replica all-reduce stays
                                               inside a host, the all-to-all crosses hosts
    contiguous    groups {0 1 2 3} {4 5 6 7}   the all-to-all stays near, the replica all-reduce
                                               crosses hosts

Ranks are numbered host by host, H on each. The ranks of a sharding group that are on one host split the
rows of a table-row-wise or grid table among them, so each group must have equally many on each of its hosts:

    T = 8, M = 2, H = 4    interleaved   group {0 2 4 6}: 2 on host {0 1 2 3}, 2 on host {4 5 6 7}
                           contiguous    group {0 1 2 3}: 4 on one host
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reference_impl.errors import InvalidConfiguration

Placement = Literal["interleaved", "contiguous"]
PLACEMENTS: tuple[Placement, ...] = ("interleaved", "contiguous")
#: FBGEMM holds rows of a multiple of this many columns, so a column shard has 4 columns or more.
COLUMN_MULTIPLE = 4


@dataclass(frozen=True)
class RankLayout:
    """T ranks in M replica groups, H ranks on each host; all on one host where H is None.

    Raises:
        InvalidConfiguration: T or M below 1, M not a divisor of T, an unknown placement, or an H that does
            not divide T or splits a sharding group unevenly.
    """

    world_size: int
    replica_groups: int = 1
    placement: Placement = "interleaved"
    ranks_per_host: int | None = None

    def __post_init__(self) -> None:
        if self.world_size < 1:
            raise InvalidConfiguration(
                "layout.world_size", self.world_size, "there must be at least one rank.", "Use 1 or more."
            )
        if self.replica_groups < 1 or self.world_size % self.replica_groups:
            divisors = [m for m in range(1, self.world_size + 1) if self.world_size % m == 0]
            raise InvalidConfiguration(
                "layout.replica_groups",
                self.replica_groups,
                f"the {self.world_size} ranks cannot be split into that many equal groups.",
                f"Use one of {divisors}.",
            )
        if self.placement not in PLACEMENTS:
            raise InvalidConfiguration(
                "layout.placement", self.placement, "unknown placement.", f"Use one of {list(PLACEMENTS)}."
            )
        if self.ranks_per_host is not None and not self._splits_evenly(self.ranks_per_host):
            fitting = [h for h in range(1, self.world_size + 1) if self._splits_evenly(h)]
            raise InvalidConfiguration(
                "layout.ranks_per_host",
                self.ranks_per_host,
                f"the {self.world_size} ranks, or the {self.group_size} of each sharding group "
                f"({self.placement}), are not spread evenly over hosts of that size.",
                f"Use one of {fitting}.",
            )

    def _splits_evenly(self, ranks_per_host: int) -> bool:
        if ranks_per_host < 1 or self.world_size % ranks_per_host:
            return False
        # Interleaved, a host's neighbours belong to M groups in turn; contiguous, to one group of N.
        step = self.replica_groups if self.placement == "interleaved" else self.group_size
        return ranks_per_host % step == 0 or step % ranks_per_host == 0

    @property
    def group_size(self) -> int:
        """N, the number of ranks that share one copy of the tables."""
        return self.world_size // self.replica_groups

    @property
    def group_ranks_per_host(self) -> int:
        """How many ranks of a sharding group are on one host, for each host that has any. It divides N."""
        on_host = self.ranks_per_host or self.world_size
        if self.placement == "interleaved":
            return max(1, on_host // self.replica_groups)
        return min(on_host, self.group_size)

    @property
    def group_hosts(self) -> tuple[tuple[int, ...], ...]:
        """The positions of a sharding group, [0, N), host by host."""
        size = self.group_ranks_per_host
        return tuple(tuple(range(i, i + size)) for i in range(0, self.group_size, size))

    def group_of(self, rank: int) -> int:
        """The replica group of a rank, in [0, M)."""
        if self.placement == "interleaved":
            return rank % self.replica_groups
        return rank // self.group_size

    def index_in_group(self, rank: int) -> int:
        """The position of a rank inside its sharding group, in [0, N)."""
        if self.placement == "interleaved":
            return rank // self.replica_groups
        return rank % self.group_size

    def rank_of(self, group: int, index: int) -> int:
        """The global rank at a position of a group: the inverse of the two above."""
        if self.placement == "interleaved":
            return index * self.replica_groups + group
        return group * self.group_size + index

    def sharding_group(self, group: int) -> tuple[int, ...]:
        """The N global ranks of one replica group, in the order of their positions."""
        return tuple(self.rank_of(group, index) for index in range(self.group_size))

    def replica_set(self, index: int) -> tuple[int, ...]:
        """The M global ranks that hold the same shards, in the order of their groups."""
        return tuple(self.rank_of(group, index) for group in range(self.replica_groups))

    def mesh(self) -> tuple[tuple[int, ...], ...]:
        """Global ranks as an M x N grid: row = sharding group, column = replica set."""
        return tuple(self.sharding_group(group) for group in range(self.replica_groups))

    def column_shards(self, dim: int) -> int:
        """C, into how many equal shards a column-wise table of ``dim`` columns is cut: as many as fit.

        That is the largest C <= N for which dim / C is a whole multiple of COLUMN_MULTIPLE. It follows N, and
        it is part of the mathematics: a row-wise optimizer keeps one moment a row and column shard.
        """
        return _most_equal_parts(dim, self.group_size)

    def grid_columns(self, dim: int) -> int:
        """C of a grid table: as above, with at most one column shard a host of the group."""
        return _most_equal_parts(dim, len(self.group_hosts))

    def slice_index(self, rank: int) -> int:
        """Which of the T slices of the global batch a rank takes: group * N + position.

        It does not depend on the placement, so that both placements and all M train on the same
        partition of the same samples.
        """
        return self.group_of(rank) * self.group_size + self.index_in_group(rank)

    def sample_range(self, rank: int, global_batch: int) -> tuple[int, int]:
        """The half-open range of the global batch a rank takes, even when T does not divide it.

        Slices differ by at most one sample, and are empty where there are more ranks than samples.
        """
        index = self.slice_index(rank)
        return index * global_batch // self.world_size, (index + 1) * global_batch // self.world_size

    def largest_slice(self, global_batch: int) -> int:
        """Samples of the largest slice, ceil(G / T): what every rank pads its own to."""
        return -(-global_batch // self.world_size)


def leaves_none_empty(rows: int, ranks: int) -> bool:
    """Whether blocks of ceil(rows / ranks) rows give every rank some. FBGEMM cannot hold a shard of none."""
    return -(-rows // ranks) * (ranks - 1) < rows


def _most_equal_parts(dim: int, most: int) -> int:
    return max(c for c in range(1, most + 1) if c == 1 or dim % (c * COLUMN_MULTIPLE) == 0)
