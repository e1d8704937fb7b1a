from __future__ import annotations

from typing import Any

import pytest

from suite.errors import ErrorReport
from suite.gate.parity import judge_real, judge_virtual, virtual_arguments
from suite.gate.plan import ParityPlan
from suite.gate.regression import Side
from tests.helpers.records import make_launch, make_record, make_run

PLAN = ParityPlan(workload="tiny", replica_groups=2, seeds=3, world_size=2)
FAILED = ErrorReport(kind="failed", message="it ended.")


def document(aucs: list[float], verdict: str = "equivalent") -> dict[str, Any]:
    arm = {
        "auc": {"mean": sum(aucs) / len(aucs), "per_seed": aucs},
        "normalized_entropy": {"mean": 0.9, "per_seed": [0.9] * len(aucs)},
    }
    difference = {"mean": 0.0, "low": -0.0001, "high": 0.0001}
    checks = [
        {"metric": m, "margin": 0.001, "difference": difference, "verdict": v, "reason": "said so."}
        for m, v in (("auc", verdict), ("normalized_entropy", "inconclusive"))
    ]
    arms = {"baseline": arm, "candidate": arm}
    return {"metric": "auc", "checks": checks, "arms": arms, "seeds": list(range(len(aucs)))}


def found(rows: list[Any]) -> dict[tuple[str, str], tuple[str, str]]:
    return {(row.configuration, row.name): (row.verdict, row.status) for row in rows}


@pytest.mark.parametrize(
    ("verdict", "status"),
    [("equivalent", "pass"), ("better", "warn"), ("worse", "fail"), ("inconclusive", "fail")],
)
def test_the_verdict_against_1d_is_that_of_the_lab(verdict, status):
    rows = judge_virtual(PLAN, document([0.7, 0.71, 0.72], verdict), None)
    assert found(rows) == {("2D M=2 against 1D", "auc"): (verdict, status)}


@pytest.mark.parametrize(
    ("head", "verdict"),
    [
        ([0.7, 0.71, 0.72], "equivalent"),
        ([0.7001, 0.7101, 0.7201], "equivalent"),
        ([0.69, 0.70, 0.71], "worse"),
    ],
    ids=["the same", "within the margin", "worse"],
)
def test_head_against_base_seed_by_seed(head, verdict):
    rows = found(judge_virtual(PLAN, document(head), document([0.7, 0.71, 0.72])))
    assert rows["2D, head against base", "auc"][0] == verdict
    assert rows["1D, head against base", "normalized_entropy"][0] == "equivalent"


def test_a_side_whose_lab_failed_did_not_run():
    assert found(judge_virtual(PLAN, FAILED, None)) == {("2D M=2 against 1D", "auc"): ("did_not_run", "fail")}
    rows = found(judge_virtual(PLAN, document([0.7, 0.7, 0.7]), FAILED))
    assert rows["head against base", "auc"] == ("did_not_run", "fail")


def test_the_command_line_of_the_lab():
    assert virtual_arguments(PLAN) == ["parity", "tiny", "--replica-groups", "2", "--seeds", "3"]


def real(aucs: list[float], groups: int) -> Side:
    layout = {"world_size": 2, "replica_groups": groups}
    return Side(
        tuple(
            make_record([make_launch(auc=auc)], make_run(layout=layout, seed=seed))
            for seed, auc in enumerate(aucs)
        )
    )


def test_real_ranks_are_judged_over_paired_seeds():
    one_d, head = real([0.7, 0.71, 0.72], 1), real([0.7001, 0.7101, 0.7201], 2)
    rows = found(judge_real(PLAN, one_d, head, real([0.71, 0.72, 0.73], 2)))
    assert rows == {
        ("2D M=2 against 1D", "auc"): ("equivalent", "pass"),
        ("2D, head against base", "auc"): ("worse", "fail"),
    }
    assert found(judge_real(PLAN, one_d, Side(failures=(FAILED,)), None)) == {
        ("2D M=2 against 1D", "auc"): ("did_not_run", "fail")
    }
