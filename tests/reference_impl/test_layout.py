"""Pure integers: who is in which group, who replicates whom, who takes which samples."""

from __future__ import annotations

import pytest

from reference_impl.errors import InvalidConfiguration
from reference_impl.layout import PLACEMENTS, Placement, RankLayout

ALL = [
    RankLayout(t, m, placement)
    for t in (1, 2, 4, 6, 8)
    for m in range(1, t + 1)
    if t % m == 0
    for placement in PLACEMENTS
]


def _name(layout: RankLayout) -> str:
    return f"T{layout.world_size}-M{layout.replica_groups}-{layout.placement}"


def test_interleaved_example_of_the_blog_post() -> None:
    """Group i holds ranks i, M + i, 2M + i, ...; neighbours replicate each other."""
    layout = RankLayout(8, 2, "interleaved")
    assert layout.group_size == 4
    assert layout.mesh() == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert [layout.replica_set(i) for i in range(4)] == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_contiguous_example_of_the_blog_post() -> None:
    """Group i holds ranks iN .. iN + N - 1; ranks N apart replicate each other."""
    layout = RankLayout(8, 2, "contiguous")
    assert layout.group_size == 4
    assert layout.mesh() == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert [layout.replica_set(i) for i in range(4)] == [(0, 4), (1, 5), (2, 6), (3, 7)]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_one_group_is_all_ranks_in_order(placement: Placement) -> None:
    layout = RankLayout(4, 1, placement)
    assert layout.mesh() == ((0, 1, 2, 3),)
    assert [layout.slice_index(r) for r in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize("layout", ALL, ids=_name)
def test_group_and_index_are_the_inverse_of_rank(layout: RankLayout) -> None:
    for rank in range(layout.world_size):
        assert layout.rank_of(layout.group_of(rank), layout.index_in_group(rank)) == rank


@pytest.mark.parametrize("layout", ALL, ids=_name)
def test_groups_and_replica_sets_each_partition_the_ranks(layout: RankLayout) -> None:
    everyone = list(range(layout.world_size))
    groups = [layout.sharding_group(g) for g in range(layout.replica_groups)]
    replicas = [layout.replica_set(i) for i in range(layout.group_size)]
    assert sorted(r for group in groups for r in group) == everyone
    assert sorted(r for members in replicas for r in members) == everyone
    # A group and a replica set meet in exactly one rank.
    assert all(len(set(group) & set(members)) == 1 for group in groups for members in replicas)


@pytest.mark.parametrize("layout", ALL, ids=_name)
def test_slices_partition_the_batch(layout: RankLayout) -> None:
    """Also where T does not divide G, and where there are more ranks than samples."""
    ranks = sorted(range(layout.world_size), key=layout.slice_index)
    for global_batch in (0, 1, 3, 16, 17, 1000):
        ranges = [layout.sample_range(rank, global_batch) for rank in ranks]
        assert [s for start, stop in ranges for s in range(start, stop)] == list(range(global_batch))
        sizes = [stop - start for start, stop in ranges]
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) == layout.largest_slice(global_batch)


@pytest.mark.parametrize("layout", [x for x in ALL if x.placement == "interleaved"], ids=_name)
def test_a_group_takes_the_same_samples_in_both_placements(layout: RankLayout) -> None:
    other = RankLayout(layout.world_size, layout.replica_groups, "contiguous")

    def samples(of: RankLayout, group: int) -> list[tuple[int, int]]:
        return [of.sample_range(rank, 37) for rank in of.sharding_group(group)]

    for group in range(layout.replica_groups):
        assert samples(layout, group) == samples(other, group)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((0,), "layout.world_size"),
        ((-2,), "layout.world_size"),
        ((4, 0), "layout.replica_groups"),
        ((4, 3), "layout.replica_groups"),
        ((4, 8), "layout.replica_groups"),
        ((4, 2, "diagonal"), "layout.placement"),
        ((4, 1, "interleaved", 0), "layout.ranks_per_host"),
        ((4, 1, "interleaved", 3), "layout.ranks_per_host"),
        ((4, 1, "interleaved", 8), "layout.ranks_per_host"),
        # Of three neighbours two are of one group, one of the other.
        ((6, 2, "interleaved", 3), "layout.ranks_per_host"),
        # The second host {4 5 6 7} has two ranks of the group {0 .. 5}, the first has four.
        ((12, 2, "contiguous", 4), "layout.ranks_per_host"),
    ],
)
def test_impossible_layouts_are_refused_by_name(arguments: tuple, field: str) -> None:
    with pytest.raises(InvalidConfiguration) as error:
        RankLayout(*arguments)
    assert error.value.field == field
    assert error.value.value in arguments
    assert error.value.remedy


def test_the_remedy_lists_the_replica_groups_that_fit() -> None:
    with pytest.raises(InvalidConfiguration, match=r"\[1, 2, 3, 4, 6, 12\]"):
        RankLayout(12, 5)


@pytest.mark.parametrize(
    ("ranks", "groups", "dim", "shards"),
    [
        (4, 1, 16, 4),
        (4, 2, 16, 2),
        (4, 4, 16, 1),
        (4, 1, 8, 2),  # shards have 4 columns or more
        (4, 1, 4, 1),
        (4, 1, 12, 3),
        (4, 1, 24, 3),  # 24 / 4 = 6 is no multiple of 4
        (4, 1, 20, 1),  # 20 / 5 would need five ranks
        (8, 1, 128, 8),
    ],
)
def test_columns_are_cut_into_as_many_equal_shards_as_fit(
    ranks: int, groups: int, dim: int, shards: int
) -> None:
    assert RankLayout(ranks, groups).column_shards(dim) == shards


@pytest.mark.parametrize(
    ("layout", "hosts_of_group_1"),
    [
        (RankLayout(8, 2, "interleaved", 4), [(1, 3), (5, 7)]),
        (RankLayout(8, 2, "contiguous", 4), [(4, 5, 6, 7)]),
        (RankLayout(8, 2, "contiguous", 2), [(4, 5), (6, 7)]),
        # Replicas fill a host: a group has one rank on each.
        (RankLayout(8, 2, "interleaved", 2), [(1,), (3,), (5,), (7,)]),
        (RankLayout(8, 4, "interleaved", 2), [(1,), (5,)]),
        (RankLayout(8, 4, "contiguous", 4), [(2, 3)]),
        (RankLayout(8, 2, "interleaved"), [(1, 3, 5, 7)]),
        (RankLayout(8, 2, "contiguous"), [(4, 5, 6, 7)]),
    ],
)
def test_hosts_of_a_group_are_real_hosts(layout: RankLayout, hosts_of_group_1: list) -> None:
    found = [tuple(layout.rank_of(1, i) for i in positions) for positions in layout.group_hosts]
    assert found == hosts_of_group_1
    on_host = layout.ranks_per_host or layout.world_size
    assert all(len({rank // on_host for rank in ranks}) == 1 for ranks in found)


def test_the_remedy_lists_the_hosts_that_fit() -> None:
    with pytest.raises(InvalidConfiguration, match=r"\[1, 2, 4, 12\]"):
        RankLayout(12, 4, "interleaved", 3)


@pytest.mark.parametrize(
    ("layout", "dim", "shards"),
    [
        (RankLayout(4, 1, "interleaved", 2), 16, 2),
        (RankLayout(4, 1, "interleaved", 1), 16, 4),
        (RankLayout(8, 2, "contiguous", 4), 16, 1),
        (RankLayout(8, 2, "interleaved", 4), 12, 1),  # 6 is no multiple of 4
    ],
)
def test_a_grid_table_has_at_most_a_column_shard_a_host(layout: RankLayout, dim: int, shards: int) -> None:
    assert layout.grid_columns(dim) == shards
