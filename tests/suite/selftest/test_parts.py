"""The selftest on real ranks: what is right passes, and what is wrong does not."""

from __future__ import annotations

import pytest

from suite.selftest import parts


def test_the_reference_conforms_and_its_memory_adds_up() -> None:
    part = parts.conformance(parts.Case("reference_2d", 2, 2, "contiguous"), "cpu")
    assert (part.status, part.message) == ("ok", "equals the oracle within 1e-5 after ten steps.")


def test_a_step_left_out_does_not_conform() -> None:
    part = parts.conformance(parts.Case("tests.helpers.wrong_implementation:Forgetful", 1), "cpu")
    assert part.status == "fail"
    assert "from the oracle, at most 1e-05 is rounding" in part.message


def test_what_it_refuses_is_a_failure_with_its_words() -> None:
    part = parts.conformance(parts.Case("baseline_1d", 2, 2), "cpu")
    assert part.status == "fail"
    assert part.message.startswith("refused: layout.replica_groups")


def test_a_fault_that_ends_otherwise_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_launched", lambda run: type("Launch", (), {"error": None}))
    assert parts.a_fault_ends_cleanly("cpu").status == "fail"


def test_wrong_memory_is_found() -> None:
    from tests.helpers.records import make_launch

    wrong = parts._wrong_memory(make_launch(step_ms=[2.0, 2.0]), parts.Case("reference_2d", 2, 2))
    assert wrong is not None
    assert "6,464" in wrong  # 2 copies of 101 rows of 8 float32 numbers


def test_on_gpus_that_are_not_there_parts_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "visible_gpus", lambda: 1)
    assert parts.conformance(parts.Case("baseline_1d", 2), "cuda").status == "skipped"
    assert parts.a_fault_ends_cleanly("cuda").status == "skipped"
    assert any(case.implementation == "torchrec_dmp_collection" for case in parts.cases("cuda"))
