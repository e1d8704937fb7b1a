from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch.distributed as dist

from reference_impl.errors import InvalidConfiguration
from suite.errors import ConfigError
from suite.launchers.messages import Message
from suite.launchers.reporter import Reporter, describe, is_communication, position_text

CLOSED = RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:7905")


def chained(inner: Exception, outer: Exception) -> Exception:
    try:
        try:
            raise inner
        except Exception:
            raise outer  # noqa: B904 (the implicit chain is what is tested)
    except Exception as error:
        return error


@pytest.mark.parametrize(
    "error",
    [
        CLOSED,
        RuntimeError("[gloo/unbound_buffer.cc:129] Timed out waiting 4000ms for send operation to complete"),
        RuntimeError("NCCL communicator was aborted on rank 1."),
        dist.DistBackendError("anything"),
        dist.DistStoreError("anything"),
        chained(CLOSED, ValueError("the batch did not come")),
    ],
    ids=lambda e: str(e)[:30],
)
def test_an_error_of_a_collective_is_known(error: Exception) -> None:
    assert is_communication(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("Connection closed by peer is what I expected"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        chained(ValueError("mine"), RuntimeError("shape")),
        MemoryError(),
        ConnectionResetError(104, "Connection reset by peer"),  # Python's own: a data source's, for example
    ],
    ids=lambda e: str(e)[:30],
)
def test_an_error_of_its_own_is_known(error: Exception) -> None:
    assert not is_communication(error)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"
        ),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB."),
    ],
)
def test_allocators_are_out_of_memory(error: Exception) -> None:
    report = describe(error, 3, "in step 2 of 9")
    assert (report.kind, report.rank) == ("out_of_memory", 3)
    assert "in step 2 of 9" in report.message


def test_an_exception_is_told_with_type_text_and_place() -> None:
    report = describe(ValueError("seven is too many"), 1, "while building")
    assert report.kind == "rank_raised"
    assert report.message == "Rank 1 raised while building: ValueError: seven is too many"


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("model.factory", "a:b", "wrong tables.", "Repair."),
        InvalidConfiguration("model.factory", "a:b", "wrong tables.", "Repair."),
    ],
)
def test_bad_input_keeps_field_value_and_remedy(error: Exception) -> None:
    report = describe(error, 0, "while building")
    assert (report.kind, report.field, report.value, report.message, report.remedy, report.rank) == (
        "bad_input",
        "model.factory",
        "a:b",
        "wrong tables.",
        "Repair.",
        0,
    )


def test_positions() -> None:
    assert position_text("train", 0, 9) == "in step 0 of 9"
    assert position_text("train", 9, 9) == "after training"
    assert position_text("evaluate", 2, 3) == "while evaluating"


@pytest.fixture
def pipe() -> tuple[Reporter, Callable[[], list[Message]]]:
    reader, writer = os.pipe()

    def told() -> list[Message]:
        return [Message.model_validate_json(line) for line in os.read(reader, 65536).splitlines()]

    return Reporter(1, writer), told


def test_a_new_phase_is_told_at_once(pipe: tuple[Reporter, Callable[[], list[Message]]]) -> None:
    reporter, told = pipe
    reporter.at("build")
    assert told()[-1].phase == "build"


def test_a_value_that_json_cannot_hold_goes_as_text(
    pipe: tuple[Reporter, Callable[[], list[Message]]],
) -> None:
    reporter, told = pipe
    reporter.failed(ConfigError("tables", {1, 2}, "a set.", "Use a list."))
    failure = told()[-1].failure
    assert failure is not None
    assert failure.report.value == "{1, 2}"


@pytest.mark.parametrize("value", [{(1, 2): "a tuple is no key"}, [{1, 2}, {(3,): 4}]])
def test_a_value_that_json_cannot_hold_at_all_goes_as_text(
    pipe: tuple[Reporter, Callable[[], list[Message]]], value: object
) -> None:
    reporter, told = pipe
    reporter.failed(ConfigError("tables", value, "wrong.", "Repair."))
    failure = told()[-1].failure
    assert failure is not None
    assert (failure.report.message, failure.report.value) == ("wrong.", repr(value))


def test_a_loop_goes_as_text(pipe: tuple[Reporter, Callable[[], list[Message]]]) -> None:
    loop: list[object] = []
    loop.append(loop)
    reporter, told = pipe
    reporter.failed(ConfigError("tables", loop, "wrong.", "Repair."))
    failure = told()[-1].failure
    assert failure is not None
    assert failure.report.value == "[[...]]"


@pytest.mark.parametrize(
    "error", [ValueError("no \udcff"), ConfigError("data.location", "a\udcff", "no \udcff.", "Repair.")]
)
def test_a_lone_surrogate_goes_as_a_question_mark(
    pipe: tuple[Reporter, Callable[[], list[Message]]], error: Exception
) -> None:
    reporter, told = pipe
    reporter.failed(error)
    failure = told()[-1].failure
    assert failure is not None
    assert "no ?" in failure.report.message
    assert failure.report.value in (None, "a?")
