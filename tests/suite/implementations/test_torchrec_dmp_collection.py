"""TorchRec's DMPCollection trains what ``reference_2d`` trains.

It asserts CUDA. Here two places of its source are changed, and nothing else: the assertion, and the device
that it gives to a shard, ``cpu:0`` where FBGEMM's optimizer wrapper takes ``cpu`` alone. gloo has no mean, so
the all-reduce is a sum and a division, by the hook that DMPCollection has for that.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    SplitTableBatchedEmbeddingBagsCodegen,
)

from suite.errors import ConfigError
from suite.implementation import implementation_class
from suite.implementations.torchrec_dmp_collection import TorchRecDMPCollection
from suite.spec import RunSpec
from tests.helpers.against_oracle import distance
from tests.helpers.distributed import World
from tests.helpers.training import Case, Trained, train
from tests.reference_impl.test_oracle import TOLERANCE

CHANGES = {
    'device.type == "cuda" or device.type == "mtia"': 'device.type == "cpu"',
    'f"rank:{shard_rank}/{self._device.type}:{shard_rank % get_local_size()}"': 'f"rank:{shard_rank}/cpu"',
}


def on_cpu() -> type:
    """DMPCollection with those two places changed."""
    from torchrec.distributed import model_parallel

    from reference_impl.sync.contract import average_

    source = inspect.getsource(model_parallel.DMPCollection)
    for before, after in CHANGES.items():
        assert source.count(before) == 1, "TorchRec's source is another"
        source = source.replace(before, after)
    names = dict(vars(model_parallel))
    exec(source, names)

    class OnCPU(names["DMPCollection"]):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.set_all_reduce_hook(lambda tensors: average_(tensors, self._default_ctx.replica_pg))

    return OnCPU


def train_on_cpu(case: Case) -> Trained:
    """Job: as ``train``, by DMPCollection."""
    from suite.implementations import torchrec_dmp_collection as module

    original, module.DMPCollection = module.DMPCollection, on_cpu()
    try:
        return train(case.but(implementation="torchrec_dmp_collection"))
    finally:
        module.DMPCollection = original


def build_fully_sharded(case: Case) -> str:
    """Job: what stops DMPCollection's other strategy on CPU."""
    from torchrec.distributed.types import ShardingStrategy

    from suite.implementations import torchrec_dmp_collection as module

    original = module.DMPCollection
    module.DMPCollection = functools.partial(on_cpu(), sharding_strategy=ShardingStrategy.FULLY_SHARDED)
    try:
        train(case.but(implementation="torchrec_dmp_collection"))
    except Exception as error:
        return str(error)
    finally:
        module.DMPCollection = original
    return "nothing"


TWO_GROUPS = Case(4, "mixed", replica_groups=2)


@pytest.mark.parametrize(
    "case",
    [
        TWO_GROUPS,
        TWO_GROUPS.but(placement="contiguous", sharding="column_wise", sync_interval=3),
        Case(2, "all_types", replica_groups=2, optimizer="momentum_scaled_rowwise_adagrad"),
    ],
    ids=str,
)
def test_it_trains_what_the_reference_trains(case: Case, world: Callable[[int], World]) -> None:
    reference = world(case.world_size).run(train, case)
    theirs = world(case.world_size).run(train_on_cpu, case)
    for ours, other in zip(reference, theirs, strict=True):
        assert other.losses == pytest.approx(ours.losses, rel=TOLERANCE)
        assert other.final.keys() == ours.final.keys()
        for name, tensor in ours.final.items():
            assert distance(other.final[name], tensor) <= TOLERANCE, name
        assert other.ended.keys() == ours.ended.keys(), "the same ranks hold the same shards"


def test_what_keeps_fully_sharded_from_being_offered(world: Callable[[int], World]) -> None:
    # It cuts up FBGEMM's weights_dev on a CUDA stream, and FBGEMM's weights on CPU are not there. When either
    # changes, it can be checked here as the default strategy is, and offered.
    case = Case(2, "row_wise", replica_groups=2)
    for why in world(2).run(build_fully_sharded, case):
        assert "torch.cuda.Stream requires CUDA" in why
    on_the_host = [(10, 4, EmbeddingLocation.HOST, ComputeDevice.CPU)]
    module = SplitTableBatchedEmbeddingBagsCodegen(on_the_host)
    assert (module.weights_dev.numel(), module.weights_host.numel()) == (0, 40)


def run_on(device: str, case: Case = TWO_GROUPS) -> RunSpec:
    run = case.run_spec()
    return run.model_copy(update={"device": device})  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("run", "field"),
    [
        (run_on("cpu"), "device"),
        (run_on("cuda", TWO_GROUPS.but(replica_groups=1)), "layout.replica_groups"),
        (run_on("cuda", TWO_GROUPS.but(optimizer="sgd")), "optimizer.name"),
        (run_on("cuda", TWO_GROUPS.but(sync_optimizer_state="delayed")), "sync_optimizer_state"),
        (run_on("cuda", TWO_GROUPS).model_copy(update={"pipeline": "sparse_dist"}), "pipeline"),
        (run_on("cuda", TWO_GROUPS.but(exchange_dtype="fp16")), "exchange_dtype"),
        (run_on("cuda", TWO_GROUPS.but(sharding="grid", ranks_per_host=2)), "layout.sharding.users"),
    ],
)
def test_what_it_does_not_offer_is_refused_by_field(run: RunSpec, field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        TorchRecDMPCollection.check(run)
    assert refused.value.report.field == field
    assert refused.value.report.remedy


def test_it_has_a_short_name() -> None:
    assert implementation_class("torchrec_dmp_collection") is TorchRecDMPCollection
