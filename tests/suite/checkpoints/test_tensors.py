"""Ten steps, a checkpoint, and ten more from it are twenty steps, whatever the second layout is.

In the same layout bit for bit, on two ranks: on more, DDP's buckets, which it orders anew in a run's first
steps, decide in which order the ranks' gradients are added, and the last bit moves. In another layout the
oracle does the same: it trains ten steps in one number of groups, and its state goes on in another. Tolerance
as in the oracle tests: max|a - b| <= 1e-5 * max|b|, for each tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from suite.errors import RunFailed
from suite.oracle.names import named
from suite.oracle.training import Oracle
from suite.spec import RunSpec
from tests.helpers.against_oracle import distance
from tests.helpers.distributed import RankFailed, World
from tests.helpers.training import Case, global_batch, rank_batch
from tests.reference_impl.test_oracle import TOLERANCE, _oracle

HALF = 10


def part(case: Case, first: int, start: str | None, keep: str | None, steps: int = HALF) -> dict[str, Any]:
    """Job: steps from step ``first`` on, from a checkpoint or not, with a checkpoint at the end or not."""
    import torch.distributed as dist

    from suite.checkpoints.tensors import load, save
    from suite.implementation import implementation_class

    run = case.run_spec()
    model: Any = implementation_class(case.implementation)(run, torch.device("cpu"))
    if start is not None:
        load(model.checkpoint_state(), Path(start))
    initial = dict(model.gather_weights())
    losses = []
    for step in range(first, first + steps):
        batch = rank_batch(global_batch(step, case.global_batch), run, dist.get_rank())
        losses.append(float(model.train_step(batch)))
    if keep is not None:
        kept = RunSpec.model_validate(dict(run) | {"checkpoint": {"folder": keep, "every": HALF}})
        save(model.checkpoint_state(), kept, first + HALF, (first + HALF) * case.global_batch)
    model.sync_replicas()
    return {"losses": losses, "initial": initial, "final": dict(model.gather_weights())}


Job = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def trained(world: Callable[[int], World]) -> Job:
    return lambda case, *args: world(case.world_size).run(part, case, *args)


TWO_RANKS = Case(2, "mixed", dense_optimizer="adagrad")
TWO_GROUPS = Case(4, "mixed", replica_groups=2, dense_optimizer="adagrad")


@pytest.mark.parametrize(
    "case",
    [
        TWO_RANKS.but(replica_groups=2, sync_optimizer_state="delayed", sync_interval=2),
        TWO_RANKS.but(sharding="all_types", implementation="baseline_1d"),
        TWO_RANKS.but(sharding="column_wise"),
    ],
    ids=str,
)
def test_in_the_same_layout_bit_for_bit(case: Case, trained: Job, tmp_path: Path) -> None:
    whole = trained(case, 0, None, None, 2 * HALF)
    first = trained(case, 0, None, str(tmp_path))
    second = trained(case, HALF, f"{tmp_path}/step00000010", None)
    for rank in range(case.world_size):
        assert first[rank]["losses"] + second[rank]["losses"] == whole[rank]["losses"]
        for name, tensor in whole[rank]["final"].items():
            assert torch.equal(second[rank]["final"][name], tensor), name


CHANGES = [
    # 1D into 2D, table- and row-wise mixed, and back.
    (TWO_RANKS.but(sharding="row_wise", implementation="baseline_1d"), TWO_GROUPS),
    (TWO_GROUPS, TWO_RANKS.but(sharding="table_wise")),
    # Another number of groups, placement and sharding; column shards stay two.
    (TWO_GROUPS.but(sharding="column_wise"), TWO_RANKS.but(sharding="column_wise")),
    (TWO_GROUPS, TWO_GROUPS.but(replica_groups=4, placement="contiguous", sharding="table_wise")),
    # Momentum scaling: the accumulator is the same, its use is not.
    (
        Case(2, "mixed", dense_optimizer="adagrad"),
        TWO_GROUPS.but(optimizer="momentum_scaled_rowwise_adagrad"),
    ),
    # Moments that waited for the next sync, into the same and into other schedules.
    (
        TWO_GROUPS.but(sync_optimizer_state="delayed"),
        TWO_GROUPS.but(sync_optimizer_state="delayed", replica_groups=4),
    ),
    (TWO_GROUPS.but(sync_optimizer_state="delayed"), TWO_GROUPS.but(sync_interval=5)),
    (TWO_GROUPS, TWO_GROUPS.but(sync_optimizer_state="delayed")),
    (
        TWO_GROUPS.but(optimizer="sgd", dense_optimizer="sgd"),
        TWO_RANKS.but(sharding="row_wise", optimizer="sgd", dense_optimizer="sgd"),
    ),
]


@pytest.mark.parametrize(
    ("before", "after"),
    CHANGES[:4] + [pytest.param(*change, marks=pytest.mark.slow) for change in CHANGES[4:]],
    ids=lambda case: str(case),
)
def test_in_another_layout_as_the_oracle(before: Case, after: Case, trained: Job, tmp_path: Path) -> None:
    first = trained(before, 0, None, str(tmp_path))
    second = trained(after, HALF, f"{tmp_path}/step00000010", None)

    oracle = _oracle(before, first[0]["initial"])
    losses = [oracle.step(global_batch(step, before.global_batch)) for step in range(HALF)]
    oracle = gone_over(oracle, _oracle(after, first[0]["initial"]))
    losses += [oracle.step(global_batch(step, after.global_batch)) for step in range(HALF, 2 * HALF)]
    oracle.finish()

    measured = [
        torch.tensor([rank["losses"] for rank in ranks]).mean(0).double() for ranks in (first, second)
    ]
    assert distance(torch.cat(measured), torch.tensor(losses).double()) <= TOLERANCE
    expected = named(oracle, with_moments=after.optimizer != "sgd")
    for rank in second:
        assert rank["final"].keys() == expected.keys()
        apart = {name: distance(rank["final"][name].double(), expected[name]) for name in expected}
        assert max(apart.values()) <= TOLERANCE, apart


def gone_over(old: Oracle, new: Oracle) -> Oracle:
    """The state of a training whose groups are equal, in another number of groups."""
    for group in new.groups:
        for name in group.tables:
            group.tables[name] = old.groups[0].tables[name].clone()
            group.moments[name] = old.groups[0].moments[name].clone()
    new.bottom, new.over = old.bottom, old.over
    new._dense, new._dense_moments = old._dense, old._dense_moments
    source = old._mean_before if old._delayed else old.groups[0].moments
    new._mean_before = {name: moments.clone() for name, moments in source.items()}
    return new


def test_replicas_are_written_once(trained: Job, tmp_path: Path) -> None:
    sizes = {}
    for case in (Case(2, "row_wise"), Case(4, "row_wise", replica_groups=2)):
        keep = tmp_path / str(case)
        trained(case, 0, None, str(keep))
        sizes[case.replica_groups] = sum(f.stat().st_size for f in (keep / "step00000010").glob("*.distcp"))
    # Headers differ, with the number of files; two copies of the tables would be a third more at least.
    assert sizes[2] < 1.25 * sizes[1]


def test_torchs_own_tools_read_it(trained: Job, tmp_path: Path) -> None:
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    (rank, *_) = trained(Case(2, "all_types"), 0, None, str(tmp_path))
    dcp_to_torch_save(tmp_path / "step00000010", tmp_path / "whole.pt")
    whole = torch.load(tmp_path / "whole.pt")
    for name, tensor in rank["final"].items():
        assert torch.equal(whole[name].reshape(tensor.shape), tensor), name


def test_a_disk_that_is_full(trained: Job, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RankFailed, match=RunFailed.__name__):
        trained(Case(1, "row_wise"), 0, None, str(tmp_path / "file"))
