"""Pooled vectors in 16 bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from reference_impl.errors import InvalidConfiguration
from reference_impl.exchange import codecs
from suite.errors import ConfigError
from tests.helpers.distributed import World
from tests.helpers.training import Case, global_batch, rank_batch

CPU = torch.device("cpu")


def test_bf16_is_refused_on_cpu_where_torchrec_would_silently_take_fp16() -> None:
    with pytest.raises(InvalidConfiguration, match="gloo has no bf16") as error:
        codecs("bf16", CPU)
    assert error.value.field == "exchange_dtype"
    assert codecs("bf16", torch.device("cuda"))


@pytest.mark.parametrize("implementation", ["baseline_1d", "reference_2d"])
def test_it_is_refused_before_anything_is_launched(implementation: str) -> None:
    from suite.implementation import implementation_class

    run = Case(2, "mixed", implementation=implementation, exchange_dtype="bf16").run_spec()
    with pytest.raises(ConfigError, match="gloo has no bf16"):
        implementation_class(implementation).check(run)


def test_32_bits_need_no_codec() -> None:
    assert codecs("fp32", CPU) is None


def _sent(case: Case) -> dict[str, int]:
    """Job: bytes this rank sends in a step, by collective."""
    from suite.collectives import CollectiveCounter, GroupNames
    from suite.implementation import implementation_class

    run = case.run_spec()
    model = implementation_class(case.implementation)(run, CPU)
    for _ in range(4):  # DDP settles in the first three
        batch = rank_batch(global_batch(0, case.global_batch), run, dist.get_rank())
        with CollectiveCounter(GroupNames(run.layout.ranks(), dist.get_rank())) as counter:
            model.train_step(batch)
    return {count.name: count.bytes for count in counter.counts()}


def test_vectors_and_their_gradients_take_half_the_bytes(world: Callable[[int], World]) -> None:
    case = Case(2, "table_wise")
    full, half = (world(2).run(_sent, case.but(exchange_dtype=d)) for d in ("fp32", "fp16"))
    # Over both ranks: 24 samples x 5 features x 8 columns x 4 bytes of vectors, and as many of gradients.
    vectors = 24 * 5 * 8 * 4
    saved = sum(rank["all_to_all"] for rank in full) - sum(rank["all_to_all"] for rank in half)
    assert saved == 2 * vectors // 2
    assert [r["all_reduce"] for r in full] == [r["all_reduce"] for r in half]
