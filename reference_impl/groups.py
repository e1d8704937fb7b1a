"""The process groups of a layout: the world, this rank's sharding group, and its replica set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torchrec.distributed.types import ShardingEnv, ShardingEnv2D

from reference_impl.errors import InvalidConfiguration
from reference_impl.layout import RankLayout


@dataclass(frozen=True)
class ProcessGroups:
    """What one rank talks to.

    Attributes:
        layout: the integers the groups were made from.
        rank: this rank, in [0, T).
        world: all T ranks.
        sharding: the N ranks that share one copy of the tables with this rank; the all-to-alls run here.
        replica: the M ranks that hold the same shards; weights are averaged here. None in 1D.
        env: what TorchRec shards by.
        timeout: of every group.
    """

    layout: RankLayout
    rank: int
    world: dist.ProcessGroup
    sharding: dist.ProcessGroup
    replica: dist.ProcessGroup | None
    env: ShardingEnv
    timeout: timedelta


def make_groups(layout: RankLayout, device: torch.device, timeout: timedelta) -> ProcessGroups:
    """Makes the groups over the initialised default process group. Collective: every rank calls it.

    Args:
        layout: T must be the default group's size.
        device: decides the mesh's device type.
        timeout: set on every group, so that no collective can wait for ever for a rank that is gone.

    Raises:
        InvalidConfiguration: the default process group has another size than T.
    """
    world = dist.group.WORLD
    if world is None or dist.get_world_size() != layout.world_size:
        have = "no" if world is None else str(dist.get_world_size())
        raise InvalidConfiguration(
            "layout.world_size",
            layout.world_size,
            f"the default process group has {have} ranks.",
            "Start as many ranks as the layout has.",
        )
    rank = dist.get_rank()
    if layout.replica_groups == 1:
        return ProcessGroups(layout, rank, world, world, None, ShardingEnv.from_process_group(world), timeout)

    columns = [list(layout.replica_set(index)) for index in range(layout.group_size)]
    sharding, _ = dist.new_subgroups_by_enumeration([list(row) for row in layout.mesh()], timeout=timeout)
    replica, _ = dist.new_subgroups_by_enumeration(columns, timeout=timeout)
    mesh = DeviceMesh.from_group(
        [replica, sharding],
        device.type,
        mesh=torch.tensor(layout.mesh()),
        mesh_dim_names=("replicate", "shard"),
    )
    env = ShardingEnv2D(
        sharding_pg=sharding,
        replica_pg=replica,
        global_pg=world,
        device_mesh=mesh,
        node_group_size=layout.group_ranks_per_host,
        # TorchRec's name for the contiguous placement: there the replica all-reduce crosses hosts.
        use_inter_host_allreduce=layout.placement == "contiguous",
    )
    return ProcessGroups(layout, rank, world, sharding, replica, env, timeout)
