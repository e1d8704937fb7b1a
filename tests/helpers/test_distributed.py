"""The helper that starts ranks must itself fail loudly: a rank that raises, ends or hangs is named."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
import torch.distributed as dist

from tests.helpers.distributed import RankFailed, World


@pytest.fixture
def ranks() -> Iterator[World]:
    world = World(2)
    yield world
    world.close()


def _rank() -> int:
    return dist.get_rank()


def _rank_1_raises() -> None:
    if dist.get_rank() == 1:
        raise ValueError("rank 1 does not like this")
    dist.barrier()  # rank 0 would wait here for as long as the group's timeout


def _rank_1_exits() -> None:
    if dist.get_rank() == 1:
        os._exit(7)
    dist.barrier()


def _rank_1_sleeps() -> None:
    if dist.get_rank() == 1:
        time.sleep(600)


def test_a_failing_rank_is_named_and_the_next_job_gets_fresh_ranks(ranks: World) -> None:
    assert ranks.run(_rank) == [0, 1]
    with pytest.raises(RankFailed, match=r"(?s)rank 1 of 2: Traceback.*_rank_1_raises.*does not like this"):
        ranks.run(_rank_1_raises)
    with pytest.raises(RankFailed, match="rank 1 of 2: ended with exit code 7"):
        ranks.run(_rank_1_exits)
    # Its stack, dumped before it is killed, says where it hung.
    with pytest.raises(RankFailed, match=r"(?s)rank 1 of 2: no answer within 2 s.*_rank_1_sleeps"):
        ranks.run(_rank_1_sleeps, deadline_s=2.0)
    assert ranks.run(_rank) == [0, 1]
