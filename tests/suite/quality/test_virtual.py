"""Virtual groups against the oracle and against real ranks; Adam and c by row against copies by hand.

Tolerance as in ``test_oracle``: max|a - b| <= 1e-5 * max|b| for each tensor. The virtual groups compute in
float32 like the real ones, and add up differences instead of averaging copies, which rounds otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from suite.errors import NON_FINITE_LOSS, RunFailed
from suite.oracle.dlrm import Layer
from suite.oracle.optimizers import DenseOptimizer, TableOptimizer
from suite.oracle.training import Oracle
from suite.quality.optimizers import row_optimizer
from suite.quality.spec import Training, VirtualOptimizer
from suite.quality.training import VirtualTraining, train
from suite.quality.virtual import VirtualReplicas
from suite.spec import DenseOptimizerSpec, WorkloadSpec
from tests.helpers.copies import Adam, Copies, FrequencyScaled, Update
from tests.helpers.training import EPS, FEATURES, SEED, TABLES, Case, Trained, global_batch

TOLERANCE = 1e-5
STEPS = 10
LEARNING_RATE = {"sgd": 2.0}
GROUPS = (1, 2, 4, 8)
OPTIMIZERS = ("sgd", "rowwise_adagrad", "momentum_scaled_rowwise_adagrad")
SCHEDULES = ((1, "immediate"), (3, "immediate"), (1, "delayed"), (3, "delayed"))


def small(groups: int, optimizer: str = "rowwise_adagrad", **changes: Any) -> Training:
    """A training of the small model."""
    workload = Case(1, "table_wise").run_spec().workload
    source = workload.data.model_copy(update={"source": "tests.helpers.small_source:SmallSource"})
    return Training.model_validate(
        {
            "workload": WorkloadSpec.model_validate(workload.model_dump() | {"data": source.model_dump()}),
            "replica_groups": groups,
            "optimizer": {
                "name": optimizer,
                "learning_rate": LEARNING_RATE.get(optimizer, 0.05),
                "eps": EPS,
                "dense": {"name": "sgd", "learning_rate": 0.5},
            },
            "global_batch": 24,
            "steps": STEPS,
            "seed": SEED,
        }
        | changes
    )


CASES = [
    *(small(m, o) for m in GROUPS for o in OPTIMIZERS),
    *(
        small(m, o, sync_interval=k, sync_optimizer_state=state, steps=12)
        for m in GROUPS[1:]
        for o in OPTIMIZERS
        for k, state in SCHEDULES[1:]
        if not (o == "sgd" and state == "delayed")
    ),
    # Apart, since every other case is slow: in a list of four optimizers two would always be.
    *(small(m, "adagrad") for m in GROUPS),
    *(
        small(m, "adagrad", sync_interval=k, sync_optimizer_state=state, steps=12)
        for m in GROUPS[1:]
        for k, state in SCHEDULES[1:]
    ),
    # M does not divide G.
    small(4, global_batch=13),
    small(8, global_batch=13, sync_interval=2),
    # The most groups that are offered.
    small(256, global_batch=260, steps=2),
    small(256, global_batch=260, steps=2, sync_interval=2),
]


def name(t: Training) -> str:
    """A test's id."""
    schedule = f"every{t.sync_interval}-{t.sync_optimizer_state}"
    return f"M{t.replica_groups}-{t.optimizer.name}-{schedule}-G{t.global_batch}"


def some(cases: list[Training]) -> list[Any]:
    """Every other case each time, which leaves none of M, optimizer or schedule out; the others are slow."""
    return [
        case if i % 2 == 0 else pytest.param(case, marks=pytest.mark.slow) for i, case in enumerate(cases)
    ]


@pytest.mark.parametrize("training", some(CASES), ids=name)
def test_equals_the_oracle(training: Training) -> None:
    run = VirtualTraining(training)
    oracle = _oracle(run)
    for step in range(training.steps):
        expected = oracle.step(global_batch(step, training.global_batch))
        assert run.step() == pytest.approx(expected, rel=TOLERANCE)

    group = oracle.groups[0]  # after a sync all are equal
    for table, weight in run.replicas.tables().items():
        assert _distance(weight, group.tables[table]) <= TOLERANCE
        if training.optimizer.name != "sgd":
            moment = run.replicas.states()[table]["moment"]
            assert _distance(moment, group.moments[table]) <= TOLERANCE
    dense = [p for layer in [*oracle.bottom, *oracle.over] for p in layer]
    for mine, theirs in zip(_dense(run), dense, strict=True):
        assert _distance(mine, theirs) <= TOLERANCE


@pytest.mark.parametrize(
    ("optimizer", "groups", "interval", "state"),
    [
        pytest.param(optimizer, m, k, state, marks=[] if (i + j) % every == 0 else pytest.mark.slow)
        for optimizer, every in (("momentum_scaled_rowwise_adagrad", 2), ("adagrad", 4))
        for i, m in enumerate((2, 4))
        for j, (k, state) in enumerate(SCHEDULES)
    ],
)
def test_equals_the_real_ranks_after_twenty_steps(
    optimizer: str, groups: int, interval: int, state: str, trained: Callable[[Case], list[Trained]]
) -> None:
    interval = 5 if interval == 3 else interval  # so that the last step ends with a sync on both sides
    case = Case(
        4,
        "mixed",
        groups,
        optimizer=optimizer,
        steps=20,
        sync_interval=interval,
        sync_optimizer_state=state,
    )
    real = trained(case)[0].final
    run = VirtualTraining(
        small(groups, optimizer, steps=20, sync_interval=interval, sync_optimizer_state=state)
    )
    for _ in range(20):
        run.step()

    for table, weight in run.replicas.tables().items():
        assert _distance(weight, real[f"table.{table}"]) <= TOLERANCE
        moment = run.replicas.states()[table]["moment"].squeeze(1)  # one a row; an element's stay [rows, D]
        assert _distance(moment, real[f"moment.{table}"]) <= TOLERANCE


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize(("interval", "state"), SCHEDULES)
@pytest.mark.parametrize(
    ("optimizer", "update"), [("adam", Adam), ("frequency_scaled_rowwise_adagrad", FrequencyScaled)]
)
def test_equals_copies_by_hand(
    optimizer: str, update: type[Update], interval: int, state: str, groups: int
) -> None:
    """One table, whose ids repeat in a bag, in a group and between groups; M does not divide every G.

    Adam divides small gradients by small roots, but not by less than eps: an error d of a gradient moves a
    weight by lr / eps * d at most, 5 d. Gradients and weights are about 1, so that d is 1e-7 and twelve steps
    come to 6e-6 if all errors add up. The worst seen is 5e-7.
    """
    rows, delayed = 23, state == "delayed"
    spec = VirtualOptimizer(name=optimizer, learning_rate=0.05, eps=EPS)
    tables = EmbeddingBagCollection(
        tables=[EmbeddingBagConfig(name="t", num_embeddings=rows, embedding_dim=8, feature_names=["f"])],
        device=torch.device("meta"),
    )
    model = torch.nn.ModuleDict({"tables": tables})
    replicas = VirtualReplicas(model, row_optimizer(spec, groups), SEED, interval, delayed)
    copies = Copies(replicas.tables()["t"], groups, update(0.05, EPS), interval, delayed)
    began = replicas.tables()["t"].clone()
    for step in range(12):
        size = 24 if step % 2 else 21
        bags = global_batch(step, size).bags["tag"]
        targets = torch.randn(size, 8, generator=torch.Generator().manual_seed(step))
        replicas.begin_step(size)
        features = KeyedJaggedTensor(
            ["f"],
            torch.tensor([i for bag in bags for i in bag]),
            lengths=torch.tensor([len(bag) for bag in bags], dtype=torch.int32),
        )
        loss = (model["tables"](features).values() - targets).square().sum() / 2 / size
        loss.backward()
        replicas.end_step()
        copies.step((bags, targets))

    after, states = replicas.tables()["t"], replicas.states()["t"]
    assert _distance(after, began) > 1000 * TOLERANCE
    assert _distance(after, copies.tables[0]) <= TOLERANCE
    for key, value in states.items():
        assert _distance(value, torch.stack([row[key] for row in copies.states[0]])) <= TOLERANCE


@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "frequency_scaled_rowwise_adagrad"])
def test_copies_and_one_copy_are_the_same_training(optimizer: str) -> None:
    """A sync every step with M copies, stepped by hand, is what one copy does."""
    one = VirtualTraining(small(4, optimizer))
    copies = VirtualTraining(small(4, optimizer, sync_interval=7))
    for _ in range(STEPS):
        one.step()
        copies.step()
        for stack in copies.replicas._all():
            stack.sync()

    for table, weight in one.replicas.tables().items():
        assert _distance(weight, copies.replicas.tables()[table]) <= TOLERANCE


@pytest.mark.parametrize(
    ("optimizer", "torchs"), [("adagrad", torch.optim.Adagrad), ("adam", torch.optim.Adam)]
)
def test_one_group_is_torchs_own_optimizer_where_every_row_is_touched(optimizer: str, torchs: Any) -> None:
    """On a table whose rows all get a gradient in every step, sparse and dense updates agree."""
    from suite.quality.optimizers import TouchedRows, row_optimizer

    torch.manual_seed(0)
    weight = torch.randn(5, 4)
    other = weight.clone().requires_grad_()
    dense = torchs([other], lr=0.05, eps=1e-8)
    mine = row_optimizer(VirtualOptimizer(name=optimizer, learning_rate=0.05, eps=1e-8), 1)
    state = {key: torch.zeros(5, width) for key, width in mine.widths(4).items()}
    for step in range(1, 11):
        gradient = torch.randn(5, 4)
        moved, state = mine.step(TouchedRows(gradient, state, step, torch.ones(5)))
        weight += moved
        other.grad = gradient.clone()
        dense.step()

    assert _distance(weight, other.detach()) <= TOLERANCE


def test_a_constant_scale_is_a_learning_rate_rule() -> None:
    """c = 4 is lr * 2 and eps * 2: the theorem of ``reference_impl/optimizer.py``."""
    scaled = VirtualTraining(small(4, "momentum_scaled_rowwise_adagrad"))
    twice = {"name": "rowwise_adagrad", "learning_rate": 0.1, "eps": 2 * EPS}
    plain = VirtualTraining(
        scaled.training.model_copy(
            update={
                "optimizer": VirtualOptimizer.model_validate(
                    twice | {"dense": scaled.training.optimizer.dense.model_dump()}
                )
            }
        )
    )
    for _ in range(STEPS):
        scaled.step()
        plain.step()

    for table, weight in scaled.replicas.tables().items():
        assert _distance(weight, plain.replicas.tables()[table]) <= TOLERANCE


def test_frequency_scaling_lies_between_none_and_full() -> None:
    """A row that every group touches always has c = 1; one that hardly any touches has nearly M."""
    from suite.quality.optimizers import RowwiseAdagrad

    optimizer = RowwiseAdagrad(VirtualOptimizer(name="frequency_scaled_rowwise_adagrad"), 16)

    c = optimizer._c(torch.tensor([1.0, 1 / 16, 1e-9]))

    assert torch.as_tensor(c).flatten().tolist() == pytest.approx([1.0, 16 / (1 + 15 / 16), 16.0])


def test_scoring_does_not_disturb_the_training() -> None:
    """Also between two syncs, where the groups differ."""
    with_scores = train(small(4, sync_interval=4, steps=8, curve_points=8))
    without = train(small(4, sync_interval=4, steps=8, curve_points=1))

    assert with_scores.last_loss == without.last_loss
    assert with_scores.curve[-1] == without.curve[-1]
    assert [p.samples for p in with_scores.curve] == [24 * i for i in range(1, 9)]


def test_weights_that_the_last_step_made_infinite_are_a_training_that_diverged() -> None:
    """The loss of a step is of before its update."""
    run = VirtualTraining(small(2))
    run.step()
    with torch.no_grad():
        next(run.model.parameters()).fill_(float("nan"))
    with pytest.raises(RunFailed, match="A score is not finite after step 1 of M = 2") as caught:
        run.score()
    assert caught.value.report.kind == NON_FINITE_LOSS


def test_a_learning_rate_that_overflows_in_the_last_step_is_a_training_that_diverged() -> None:
    fast = VirtualOptimizer(dense=DenseOptimizerSpec(name="sgd", learning_rate=1e30))
    with pytest.raises(RunFailed, match="A score is not finite after step 1 of M = 2") as caught:
        train(small(2, steps=1).model_copy(update={"optimizer": fast}))
    assert caught.value.report.kind == NON_FINITE_LOSS


def _oracle(run: VirtualTraining) -> Oracle:
    training, dense = run.training, _dense(run)
    scaled = training.optimizer.name.startswith("momentum")
    kind = training.optimizer.name if training.optimizer.name in ("sgd", "adagrad") else "rowwise_adagrad"
    layers = [Layer(dense[i], dense[i + 1]) for i in range(0, len(dense), 2)]
    return Oracle(
        FEATURES,
        run.replicas.tables(),
        layers[:2],
        layers[2:],
        TableOptimizer(
            kind, training.optimizer.learning_rate, EPS, float(training.replica_groups) if scaled else 1.0
        ),
        DenseOptimizer("sgd", 0.5),
        training.replica_groups,
        {t["name"]: 1 for t in TABLES},
        training.sync_interval,
        training.sync_optimizer_state == "delayed",
    )


def _dense(run: VirtualTraining) -> list[torch.Tensor]:
    """Weight, bias, weight, bias, ... of the bottom and then the top layers."""
    return [p.detach() for p in run.model.parameters()]


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """max|a - b| / max|b|."""
    return float((a.double() - b.double()).abs().max() / b.double().abs().max())
