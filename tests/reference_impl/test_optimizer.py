"""Row-wise AdaGrad, momentum scaling, and the theorem that a constant c is a learning-rate rule."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import get_args

import pytest
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    EmbeddingLocation,
    SplitTableBatchedEmbeddingBagsCodegen,
)

from reference_impl.optimizer import KINDS, EmbeddingOptimizer, Name, offered_on
from suite.oracle.optimizers import TableOptimizer
from tests.helpers.distributed import World
from tests.helpers.training import EPS, LEARNING_RATE, Case, Trained
from tests.reference_impl.one_row import OneRow, first_step

LR = LEARNING_RATE["rowwise_adagrad"]


def _fifty_steps(optimizer: TableOptimizer) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    weight = torch.randn(20, 8, generator=draw, dtype=torch.float64)
    moment = torch.zeros(20, 1, dtype=torch.float64)
    for _ in range(50):
        optimizer.step(weight, moment, torch.randn(20, 8, generator=draw, dtype=torch.float64))
    return weight


@pytest.mark.parametrize("c", [0.5, 1.0, 2.0, 3.0, 16.0, 64.0])
def test_a_constant_c_is_plain_adagrad_with_larger_rate_and_eps(c: float) -> None:
    """lr g / (sqrt(v / c) + eps) = lr sqrt(c) g / (sqrt(v) + eps sqrt(c)): the formulae, in float64."""
    root = math.sqrt(c)
    scaled = _fifty_steps(TableOptimizer("rowwise_adagrad", 0.1, eps=0.01, c=c))
    plain = _fifty_steps(TableOptimizer("rowwise_adagrad", 0.1 * root, eps=0.01 * root))
    # Fifty steps of a few roundings each of 1.1e-16, on values up to 4.
    assert float((scaled - plain).abs().max()) < 1e-13


def test_it_takes_both_the_rate_and_eps() -> None:
    """Scaling one of the two alone is another optimizer."""
    scaled = _fifty_steps(TableOptimizer("rowwise_adagrad", 0.1, eps=0.01, c=4.0))
    for lr, eps in ((0.2, 0.01), (0.1, 0.02)):
        plain = _fifty_steps(TableOptimizer("rowwise_adagrad", lr, eps=eps))
        assert float((scaled - plain).abs().max()) > 1e-4


@pytest.mark.parametrize("c", [1.0, 2.0, 3.0, 16.0])
def test_what_fbgemm_is_given_follows_from_the_theorem(c: float) -> None:
    given = EmbeddingOptimizer("momentum_scaled_rowwise_adagrad", 0.1, eps=0.01, scale=c).fused_params()
    assert given["optimizer"] is EmbOptimType.EXACT_ROWWISE_ADAGRAD
    as_run = _fifty_steps(TableOptimizer("rowwise_adagrad", given["learning_rate"], eps=given["eps"]))
    as_meant = _fifty_steps(TableOptimizer("rowwise_adagrad", 0.1, eps=0.01, c=c))
    assert float((as_run - as_meant).abs().max()) < 1e-13


def test_the_other_optimizers_are_given_as_they_are() -> None:
    assert EmbeddingOptimizer("sgd", 0.1, eps=0.01).fused_params() == {
        "optimizer": EmbOptimType.EXACT_SGD,
        "learning_rate": 0.1,
    }
    assert EmbeddingOptimizer("rowwise_adagrad", 0.1, eps=0.01).fused_params() == {
        "optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        "learning_rate": 0.1,
        "eps": 0.01,
    }


@pytest.mark.parametrize("name", get_args(Name))
def test_fbgemm_is_asked_for_the_kernel_that_the_table_names(name: Name) -> None:
    given = EmbeddingOptimizer(name, 0.1, eps=0.01).fused_params()
    assert given.pop("optimizer") is EmbOptimType[KINDS[name].fbgemm]
    assert given == {"learning_rate": 0.1} | ({"eps": 0.01} if KINDS[name].has_eps else {})


def _tbe(name: Name) -> SplitTableBatchedEmbeddingBagsCodegen:
    return SplitTableBatchedEmbeddingBagsCodegen(
        [(10, 8, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        **EmbeddingOptimizer(name, 0.1, eps=0.01).fused_params(),
    )


@pytest.mark.parametrize("name", get_args(Name))
def test_fbgemm_itself_draws_the_line_between_devices(name: Name) -> None:
    if name not in offered_on("cpu"):
        with pytest.raises(AssertionError, match="not supported in CPU mode"):
            _tbe(name)
    elif KINDS[name].states:
        (states,) = _tbe(name).split_optimizer_states()
        shapes = {"row": (10,), "element": (10, 8)}
        assert [tuple(state.shape) for state in states] == [shapes[kind] for kind in KINDS[name].states]


def test_what_fbgemm_offers_on_cpu_is_here_but_for_what_the_docstring_leaves_out() -> None:
    offered = set()
    for kind in EmbOptimType:
        with contextlib.suppress(AssertionError):
            SplitTableBatchedEmbeddingBagsCodegen(
                [(10, 8, EmbeddingLocation.HOST, ComputeDevice.CPU)], optimizer=kind
            )
            offered.add(kind.name)
    assert offered - {KINDS[name].fbgemm for name in offered_on("cpu")} == {"EMAINPLACE_ROWWISE_ADAGRAD"}


def test_taking_an_accumulator_from_c_1_to_a_larger_c_needs_it_times_c_to_go_on_smoothly() -> None:
    """v built at c = 1; the next update with c = 4 is twice as large, and with 4 v as large as before."""
    gradient = torch.full((1, 4), 0.5, dtype=torch.float64)

    def update(v: float, c: float) -> float:
        weight = torch.zeros(1, 4, dtype=torch.float64)
        # A gradient that adds next to nothing to v, and an eps of nothing: what is left is lr g sqrt(c / v).
        moment = torch.full((1, 1), v, dtype=torch.float64)
        TableOptimizer("rowwise_adagrad", 0.1, eps=0.0, c=c).step(weight, moment, gradient)
        return -float(weight[0, 0])

    before = update(1e9, 1.0)
    assert update(1e9, 4.0) == pytest.approx(2 * before)
    assert update(4e9, 4.0) == pytest.approx(before)


@pytest.mark.parametrize("groups", [2, 4])
def test_in_real_training_both_ways_of_writing_it_give_the_same_bits(
    groups: int, trained: Callable[[Case], list[Trained]]
) -> None:
    """2D with c left out (it is M), against plain row-wise AdaGrad with lr sqrt(M) and eps sqrt(M)."""
    root = math.sqrt(groups)
    scaled = Case(4, "mixed", replica_groups=groups, optimizer="momentum_scaled_rowwise_adagrad")
    plain = scaled.but(optimizer="rowwise_adagrad", learning_rate=LR * root, eps=EPS * root)
    unscaled = scaled.but(optimizer="rowwise_adagrad")
    for a, b, other in zip(trained(scaled), trained(plain), trained(unscaled), strict=True):
        assert a.losses == b.losses
        assert a.digests == b.digests
        assert all(torch.equal(a.final[name], b.final[name]) for name in a.final)
        assert a.digests[0] != other.digests[0]  # and it is not what plain AdaGrad does


@pytest.mark.parametrize(("world_size", "groups"), [(1, 1), (2, 1), (2, 2)])
def test_moment_is_the_mean_of_squares_not_the_square_of_the_mean(
    world_size: int, groups: int, world: Callable[[int], World]
) -> None:
    """The gradient [1, -1, 1, -1] adds 1 to v; its mean is 0, and so would be the mean's square."""
    case = OneRow("alternating", world_size, groups, optimizer="rowwise_adagrad", learning_rate=0.5, eps=0.25)
    for rank in world(world_size).run(first_step, case):
        assert rank.moments_after_sync[0] == 1.0
        # w -= 0.5 * g / (sqrt(1) + 0.25): eps stands outside the root.
        assert rank.weights_after_sync[0] == pytest.approx([-0.4, 0.4, -0.4, 0.4], rel=1e-6)
