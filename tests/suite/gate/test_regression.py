from __future__ import annotations

from typing import Any

import pytest

from suite.errors import ErrorReport
from suite.gate.findings import Policy, make_gate, make_part
from suite.gate.plan import RegressionPlan
from suite.gate.regression import Pair, Side, Suspect, judge, judge_again, without_ratio
from suite.metrics import METRICS
from suite.record import RunRecord
from tests.helpers.records import (
    STACK,
    make_environment,
    make_launch,
    make_profile,
    make_record,
    make_run,
    with_profiles,
)
from tests.helpers.records import other as other_workload

PLAN = RegressionPlan()
FAILED = ErrorReport(kind="rank_raised", rank=1, message="ValueError: told to.")


def side(step: float = 10, count: int = 5, profile: Any = None, **changes: Any) -> Side:
    records = []
    for i in range(count):
        launch = make_launch(i, [step + i / 100] * 2, **changes.get("launch", {}))
        if profile is not None:
            launch = with_profiles(launch, [profile, profile])
        records.append(_record(launch, **{k: v for k, v in changes.items() if k != "launch"}))
    return Side(tuple(records))


def _record(launch: Any, **changes: Any) -> RunRecord:
    return make_record([launch], **changes)


def judged(base: Side, head: Side, **options: Any) -> tuple[dict[str, Any], list[Suspect]]:
    rows, suspects = judge([Pair("one", base, head)], PLAN, **options)
    return {row.name: row for row in rows}, suspects


def test_the_same_again_passes_in_every_row():
    rows, suspects = judged(side(), side())
    assert {row.status for row in rows.values()} == {"pass"}
    assert {"step_ms", "bytes", "calls", "memory.process", "memory.embedding_weights", "auc"} <= rows.keys()
    assert suspects == []


def test_a_slow_step_is_suspected_and_then_worse_or_not():
    base, head = side(10), side(12)
    rows, suspects = judged(base, head)
    assert suspects == [Suspect("one", "step_ms")]
    assert (rows["step_ms"].verdict, rows["step_ms"].status) == ("inconclusive", "warn")
    for fresh, verdict in ((side(12, 6), "worse"), (side(10, 6), "inconclusive")):
        again = judge_again(list(rows.values()), [Pair("one", side(10, 6), fresh)], suspects, PLAN)
        assert {row.name: row.verdict for row in again}["step_ms"] == verdict
        assert len(again) == len(rows)


def test_saved_records_that_cannot_be_run_again_are_judged_at_once():
    rows, suspects = judged(side(10, 8), side(12, 8), may_rerun=False)
    assert (rows["step_ms"].verdict, suspects) == ("worse", [])


def test_more_memory_is_suspected():
    _, suspects = judged(side(launch={"process": 500}), side(launch={"process": 564}))
    assert suspects == [Suspect("one", "memory.process")]


@pytest.mark.parametrize(
    ("base", "head", "verdict"),
    [((0, 0), (0, 0), "equivalent"), ((0, 0), (64, 65), "worse"), ((9, 9), (0, 0), "better")],
)
def test_bytes_that_a_side_does_not_have_at_all(base, head, verdict):
    metric = METRICS["memory.communication_buffers"]
    assert without_ratio(metric, base, head).verdict == verdict
    assert without_ratio(metric, (0, 3), (0, 4)).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("launch", "worse"),
    [({"wire_bytes": 101}, {"bytes", "wire_bytes"}), ({"auc": 0.7499999}, {"auc"})],
    ids=["a byte", "a little AUC"],
)
def test_what_is_deterministic_is_worse_by_any_difference(launch, worse):
    rows, _ = judged(side(), side(launch=launch))
    assert {name for name, row in rows.items() if row.verdict == "worse"} == worse
    assert all(rows[name].status == "fail" for name in worse)


def test_quality_that_changed_for_the_better_is_no_improvement_of_one_seed():
    rows, _ = judged(side(), side(launch={"auc": 0.76}))
    assert (rows["auc"].verdict, rows["auc"].status) == ("inconclusive", "fail")
    rows, _ = judged(side(), side(launch={"auc": 0.76}), accepted=["auc"])
    assert (rows["auc"].verdict, rows["auc"].status) == ("inconclusive", "warn")


def test_quality_on_other_samples_did_not_run():
    quality = make_launch().quality
    assert quality is not None
    launch = make_launch(auc=0.9).model_copy(update={"quality": quality.model_copy(update={"samples": 26})})
    rows, _ = judged(side(), Side((make_record([launch]),)))
    assert (rows["auc"].verdict, rows["auc"].status) == ("did_not_run", "fail")
    assert "26 of 'test'" in rows["auc"].reason


def test_fewer_bytes_are_better_and_nothing_fails():
    rows, _ = judged(side(), side(launch={"wire_bytes": 90}))
    assert (rows["wire_bytes"].verdict, rows["wire_bytes"].status) == ("better", "warn")


def test_a_component_is_named():
    slow = make_profile([12.0] * 3)
    rows, suspects = judged(side(profile=make_profile([10.0] * 3)), side(profile=slow))
    assert Suspect("one", "components.lookup.exposed_ms") in suspects
    assert "components.replica_sync.exposed_ms" not in rows


def test_one_more_call_of_a_component_is_worse_and_named():
    head = make_profile([10.0] * 3)
    more = {
        name: sample.model_copy(update={"calls": (sample.calls or 0) + 1}) if name == "input_dist" else sample
        for name, sample in head.steps[0].components.items()
    }
    head = head.model_copy(
        update={"steps": tuple(s.model_copy(update={"components": more}) for s in head.steps)}
    )
    rows, _ = judged(side(profile=make_profile([10.0] * 3)), side(profile=head))
    assert {n for n, row in rows.items() if row.verdict == "worse"} == {"components.input_dist.calls"}


def test_components_that_are_next_to_nothing_are_not_judged():
    rows, _ = judged(
        side(1000, profile=make_profile([10.0] * 3)), side(1000, profile=make_profile([20.0] * 3))
    )
    assert not [name for name in rows if name.startswith("components.") and name.endswith("_ms")]


def test_a_side_that_failed_did_not_run_and_says_why():
    rows, _ = judged(side(), Side(failures=(FAILED, FAILED)))
    assert rows.keys() == {"launches_failed"}
    row = rows["launches_failed"]
    assert (row.verdict, row.status, row.before, row.after) == ("did_not_run", "fail", 0, 2)
    assert "head failed in 2 of 2 launches: rank 1: ValueError: told to." in row.reason


def test_one_failed_launch_of_five_is_not_passed_over():
    head = Side(side(count=4).records, (FAILED,))
    rows, _ = judged(side(), head)
    assert rows["launches_failed"].status == "fail"
    assert rows["bytes"].verdict == "equivalent"


def test_what_one_side_lacks_is_missing():
    rows, _ = judged(side(profile=make_profile([10.0] * 3)), side())
    assert rows["components.lookup.exposed_ms"].verdict == "did_not_run"
    assert "base measured it, head did not" in rows["components.lookup.exposed_ms"].reason
    assert rows["components.lookup.exposed_ms"].status == "fail"


def test_another_workload_is_incomparable():
    rows, _ = judged(side(), side(run=make_run(workload=other_workload())))
    assert rows.keys() == {"records"}
    assert (rows["records"].verdict, rows["records"].status) == ("incomparable", "fail")


def test_another_stack_compares_quality_by_its_margin_where_it_is_allowed():
    stack = make_environment(versions=STACK | {"torch": "2.14.0+cpu"})
    rows, _ = judged(side(), side(environment=stack))
    assert rows["records"].verdict == "incomparable"
    rows, _ = judged(side(), side(environment=stack, launch={"auc": 0.7499}), other_stack=True)
    assert (rows["auc"].verdict, rows["bytes"].verdict) == ("inconclusive", "equivalent")
    assert rows["auc"].status == "warn"


def test_launches_that_do_not_agree_are_not_deterministic():
    records = [make_record([make_launch(auc=auc)]) for auc in (0.75, 0.76)]
    rows, _ = judged(side(), Side(tuple(records)))
    assert rows["auc"].verdict == "inconclusive"
    assert "do not agree" in rows["auc"].reason


@pytest.mark.parametrize("policy", [Policy(did_not_run="warn"), Policy()], ids=["warn", "fail"])
def test_a_gate_that_measured_nothing_fails_whatever_the_policy(policy):
    empty = make_gate([make_part("regression", [], policy), make_part("parity", [], policy)])
    assert (empty.verdict, empty.status) == ("did_not_run", "fail")
    rows, _ = judge(
        [Pair("one", side(), Side(failures=(FAILED,)))], PLAN.model_copy(update={"policy": policy})
    )
    assert make_gate([make_part("regression", rows, policy)]).status == "fail"


def test_the_worst_row_is_the_verdict_of_all():
    rows, _ = judge([Pair("one", side(), side(launch={"wire_bytes": 101}))], PLAN)
    gate = make_gate([make_part("regression", rows, PLAN.policy), make_part("scaling", [], Policy())])
    assert (gate.verdict, gate.status) == ("worse", "fail")
    assert "one bytes" in gate.parts[0].reason
