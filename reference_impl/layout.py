"""Which rank holds what: pure integers, no torch.

T ranks form M replica groups of N = T / M ranks. Inside a group (the *sharding group*) the embedding
tables are sharded; the ranks that hold the same shard in different groups form a *replica set* and
average it. M = 1 is plain 1D sharding.

Two placements exist (TorchRec's ``use_inter_host_allreduce`` chooses between them). For T = 8, M = 2:

    interleaved   groups {0 2 4 6} {1 3 5 7}   replicas are neighbours: the replica all-reduce stays
                                               inside a host, the all-to-all crosses hosts
    contiguous    groups {0 1 2 3} {4 5 6 7}   the all-to-all stays near, the replica all-reduce
                                               crosses hosts
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
    """T ranks in M replica groups.

    Raises:
        InvalidConfiguration: T or M below 1, M not a divisor of T, or an unknown placement.
    """

    world_size: int
    replica_groups: int = 1
    placement: Placement = "interleaved"

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

    @property
    def group_size(self) -> int:
        """N, the number of ranks that share one copy of the tables."""
        return self.world_size // self.replica_groups

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
        return max(c for c in range(1, self.group_size + 1) if c == 1 or dim % (c * COLUMN_MULTIPLE) == 0)

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
