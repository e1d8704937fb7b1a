"""Hosts inside a sharding group: what table-row-wise and grid tables are split over.

The ranks of a group on one host split the rows of such a table, and reduce their partial sums there; the
results cross to the other hosts between ranks at the same place on theirs.
"""

from __future__ import annotations

import torch.distributed as dist
from torchrec.distributed import comm

from reference_impl.groups import ProcessGroups


def split_over_hosts(groups: ProcessGroups) -> None:
    """Makes the groups of a layout's hosts and hands them to TorchRec. Collective: every rank calls it.

    TorchRec would make them itself, once a process, by LOCAL_WORLD_SIZE, and keep them in globals of its
    module ``comm``; under 2D it would not ask which ranks of a group really share a host. Here they follow
    the layout, and those of a later layout replace them.
    """
    layout = groups.layout
    intra, cross = [], []
    for group in range(layout.replica_groups):
        hosts = [[layout.rank_of(group, i) for i in positions] for positions in layout.group_hosts]
        intra += hosts
        cross += [list(peers) for peers in zip(*hosts, strict=True)]
    on_host, _ = dist.new_subgroups_by_enumeration(intra, timeout=groups.timeout)
    across, _ = dist.new_subgroups_by_enumeration(cross, timeout=groups.timeout)
    comm._INTRA_PG = comm._INTRA_PG_2D = on_host
    comm._CROSS_PG = comm._CROSS_PG_2D = across
    comm._NODE_GROUP_SIZE_2D = layout.group_ranks_per_host
