"""Environment variables that the launchers add to torchrun's, and those a rank gets from them."""

from __future__ import annotations

from collections.abc import Mapping

#: The launcher's process id, so that no rank outlives it.
PARENT_PID = "SPARSE2D_PARENT_PID"
#: The write end of the pipe on which a rank tells the launcher where it is.
REPORT_FD = "SPARSE2D_REPORT_FD"
#: For rank 0, a socket that listens on MASTER_PORT already, so that no other process can have taken it.
STORE_FD = "SPARSE2D_STORE_FD"
#: The same for all ranks of a launch and no other: by it the launcher finds what ranks have started.
LAUNCH_ID = "SPARSE2D_LAUNCH_ID"
#: For what watches a rank on another host: ``host:port`` of the launcher (no host: the one srun runs on), and
#: the word that it shows there.
LAUNCHER_ADDRESS, LAUNCHER_TOKEN = "SPARSE2D_LAUNCHER", "SPARSE2D_LAUNCHER_TOKEN"
#: Set in a cluster in a box (``ci/cluster-in-a-box``): what is emulated, in words.
BOX = "SPARSE2D_BOX"


def rank_environment(
    base: Mapping[str, str], rank: int, world_size: int, local: tuple[int, int], master: tuple[str, int]
) -> dict[str, str]:
    """The environment of a rank: ``base`` and torchrun's variables.

    Args:
        base: what the rank inherits.
        rank: in [0, ``world_size``).
        world_size: T.
        local: the rank's place on its host, and how many ranks are there.
        master: address and port at which the ranks meet.
    """
    return {
        # One thread a rank at every world size, as torchrun does: a rank that gets more cores where there
        # are fewer ranks would make scaling look worse than it is.
        "OMP_NUM_THREADS": "1",
        **base,
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(local[0]),
        "LOCAL_WORLD_SIZE": str(local[1]),
        "MASTER_ADDR": master[0],
        "MASTER_PORT": str(master[1]),
        "PYTHONUNBUFFERED": "1",
    }
