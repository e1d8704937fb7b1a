from __future__ import annotations

from typing import Any

import pytest

from suite.compare import ALLOWANCES, Comparison, compare
from suite.components import COMPONENTS
from suite.errors import ConfigError
from suite.record import RunRecord
from tests.helpers.records import (
    STACK,
    failed_launch,
    make_environment,
    make_launch,
    make_profile,
    make_record,
    make_run,
    other,
    tiny,
    with_profiles,
)


def rows(comparison: Comparison) -> dict[str, Any]:
    return {row.name: row for row in comparison.metrics}


def launches(step: float, count: int = 5, minute: int = 0, **changes: Any) -> list[Any]:
    """``count`` launches of about ``step`` ms, one a second."""
    return [
        make_launch(i, [step + i / 100] * 2, started=f"2026-01-01T00:{minute:02d}:{i:02d}+00:00", **changes)
        for i in range(count)
    ]


A = make_record(launches(10))
RARELY = make_run(layout={"world_size": 2, "replica_groups": 2}, sync_interval=2)
TWO_D = make_run(layout={"world_size": 2, "replica_groups": 2})


def b(**changes: Any) -> RunRecord:
    return make_record(**{"run_id": "20260101T000000Z-bbbbbb", "launches": launches(10, minute=1)} | changes)


def test_the_same_again_is_equivalent_in_every_metric():
    found = compare([A], [b()])
    assert {row.verdict for row in found.metrics} == {"equivalent"}
    assert found.verdict == "equivalent"
    assert found.differences == ()


@pytest.mark.parametrize(("step", "verdict"), [(7, "better"), (13, "worse")])
def test_a_change_of_speed_over_five_launches(step, verdict):
    found = compare([A], [b(launches=launches(step, minute=1))])
    assert found.verdict == verdict
    assert rows(found)["step_ms"].verdict == rows(found)["samples_per_s"].verdict == verdict
    assert rows(found)["step_ms"].ratio == pytest.approx(step / 10, rel=0.01)
    assert rows(found)["samples_per_s"].ratio == pytest.approx(10 / step, rel=0.01)
    assert rows(found)["auc"].verdict == "equivalent"


def test_one_launch_a_side_decides_nothing_about_speed_but_all_about_bytes():
    found = compare([make_record(launches(10, 1))], [b(launches=launches(5, 1))])
    assert rows(found)["step_ms"].verdict == "inconclusive"
    assert "it takes 5 a side" in rows(found)["step_ms"].reason
    assert rows(found)["bytes"].verdict == "equivalent"
    assert found.verdict == "inconclusive"


def test_one_byte_more_on_the_wire_is_worse():
    found = compare([A], [b(launches=launches(10, wire_bytes=101, minute=1))])
    assert rows(found)["wire_bytes"].verdict == "worse"
    assert (rows(found)["wire_bytes"].before, rows(found)["wire_bytes"].after) == (105, 106)
    assert found.verdict == "worse"
    assert [row.name for row in found.deterministic_changes()] == ["bytes", "wire_bytes"]


def test_quality_of_the_same_run_is_exact():
    found = compare([A], [b(launches=launches(10, auc=0.75 + 1e-12, minute=1))])
    assert rows(found)["auc"].verdict == "better"


@pytest.mark.parametrize(
    "changes",
    [
        {"run": TWO_D},
        {"environment": make_environment(cpu_model="Another processor")},
        {"launches": launches(10, auc=0.7499, threads=2, minute=1)},
    ],
    ids=["layout", "processor", "threads"],
)
def test_quality_of_two_ways_of_training_is_not_expected_to_be_equal_to_the_last_bit(changes):
    found = compare([A], [b(**{"launches": launches(10, auc=0.7499, minute=1)} | changes)])
    assert rows(found)["auc"].verdict == "inconclusive"
    assert "-0.0001 is within the margin 0.001" in rows(found)["auc"].reason
    assert "same seeds" in rows(found)["auc"].reason


def of_seeds(run: Any, aucs: list[float], letter: str) -> list[RunRecord]:
    return [
        make_record(
            launches(10, 1, auc=auc),
            run.model_copy(update={"seed": seed}),
            run_id=f"20260101T000000Z-{letter * 5}{seed}",
        )
        for seed, auc in enumerate(aucs)
    ]


@pytest.mark.parametrize(
    ("aucs", "verdict"),
    [([0.7501, 0.7511, 0.7489], "equivalent"), ([0.7601, 0.7611, 0.7589], "better")],
)
def test_quality_over_paired_seeds(aucs, verdict):
    one = of_seeds(make_run(), [0.7500, 0.7510, 0.7490], "a")
    found = compare(one, of_seeds(TWO_D, aucs, "b"))
    assert rows(found)["auc"].verdict == verdict
    assert "3 paired seeds" in rows(found)["auc"].reason


def test_what_differs_by_design_is_named_and_compared():
    found = compare(
        [A], [b(run=TWO_D.model_copy(update={"implementation": "tests.helpers.records:OneGroup"}))]
    )
    assert {d.field: (d.before, d.after) for d in found.differences} == {
        "implementation": ("tests.helpers.records:Anything", "tests.helpers.records:OneGroup"),
        "layout.replica_groups": (1, 2),
    }
    assert rows(found)["bytes"].verdict == "equivalent"


def test_runs_on_unlike_sync_schedules_are_not_the_same_training():
    found = compare([make_record(launches(10), TWO_D)], [b(run=RARELY, launches=launches(10, auc=0.7499))])
    assert [(d.field, d.before, d.after) for d in found.differences] == [("sync_interval", 1, 2)]
    assert rows(found)["auc"].verdict == "inconclusive"


def test_code_that_was_edited_in_between_is_named_and_nothing_is_called_exact():
    one = make_record(
        launches(10), environment=make_environment(code={"their_model": "aa", "their_data": "cc"})
    )
    edited = make_environment(code={"their_model": "bb", "their_data": "cc"})
    found = compare([one], [b(environment=edited, launches=launches(10, auc=0.76, minute=1))])
    assert [(d.field, d.before, d.after) for d in found.differences] == [("code.their_model", "aa", "bb")]
    assert any("their_model was edited" in note for note in found.notes)
    assert rows(found)["auc"].verdict == "inconclusive"
    with pytest.raises(ConfigError, match=r"one configuration, but: code\.their_model"):
        compare([one, b(environment=edited)], [A])


def test_a_record_of_before_code_was_digested_is_taken_as_alike():
    found = compare([A], [b(environment=make_environment(code={"their_model": "aa"}))])
    assert found.differences == ()
    assert rows(found)["auc"].reason == "deterministic, and equal to the last bit."


UNLIKE = {
    "spec": {"run": make_run(workload=other())},
    "device": {"run": make_run(device="cuda"), "environment": make_environment(gpus=["X, 1 MiB, 5"])},
    "stack": {"environment": make_environment(versions=STACK | {"torchrec": "1.9.0"})},
    "data": {"launches": launches(10, fingerprint="others", minute=1)},
    "provenance": {"provenance": "emulated"},
}


@pytest.mark.parametrize("what", ALLOWANCES)
def test_unlike_things_are_incomparable_unless_allowed(what):
    unlike = b(**UNLIKE[what])
    found = compare([A], [unlike])
    assert found.verdict == "incomparable"
    assert {row.verdict for row in found.metrics} == {"incomparable"}
    assert all(row.ratio is None for row in found.metrics)
    assert rows(found)["step_ms"].before == pytest.approx(10.02)
    assert f"--allow {what}" in found.reason
    others = [word for word in ALLOWANCES if word != what]
    assert compare([A], [unlike], others).verdict == "incomparable"
    assert compare([A], [unlike], [what]).verdict != "incomparable"


def test_another_model_of_gpu_is_another_device():
    def on(gpu: str) -> RunRecord:
        return b(run=make_run(device="cuda"), environment=make_environment(gpus=[gpu]))

    assert compare([on("X, 80 GiB, 1")], [on("Y, 80 GiB, 1")]).verdict == "incomparable"
    assert compare([on("X, 80 GiB, 1")], [on("X, 80 GiB, 2")]).verdict == "equivalent"


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_side_without_a_finished_launch_did_not_run(side):
    failed = b(launches=[failed_launch()], status="failed")
    found = compare([failed], [A]) if side == "before" else compare([A], [failed])
    assert found.verdict == "did_not_run"
    assert side in found.reason
    assert {row.verdict for row in found.metrics} == {"did_not_run"}


def test_finished_launches_of_a_partial_run_count():
    partial = b(launches=[*launches(10, 4, minute=1), failed_launch(4)], status="partial")
    found = compare([A], [partial])
    assert found.verdict == "equivalent"
    assert any("only its finished launches count" in note for note in found.notes)


def test_launches_that_do_not_agree_on_a_deterministic_metric_decide_nothing():
    mixed = [*launches(10, 4), make_launch(4, [10, 10], wire_bytes=999)]
    found = compare([make_record(mixed)], [b()])
    assert rows(found)["wire_bytes"].verdict == "inconclusive"
    assert "do not agree" in rows(found)["wire_bytes"].reason
    assert found.verdict == "inconclusive"


def test_seeds_without_a_common_one_leave_deterministic_metrics_incomparable():
    found = compare([A], [b(run=make_run(seed=7))])
    assert rows(found)["bytes"].verdict == rows(found)["auc"].verdict == "incomparable"
    assert rows(found)["step_ms"].verdict == "equivalent"
    assert found.verdict == "inconclusive"


def test_quality_after_unlike_training_is_incomparable():
    found = compare([A], [b(run=make_run(steps=12))])
    assert rows(found)["auc"].verdict == "incomparable"
    assert "48 and 96 samples" in rows(found)["auc"].reason


def test_worse_in_one_and_better_in_another_metric_is_worse_and_says_both():
    found = compare([A], [b(launches=launches(7, wire_bytes=101, minute=1))])
    assert found.verdict == "worse"
    assert "worse: bytes, wire_bytes" in found.reason
    assert "better: samples_per_s, step_ms" in found.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environment": make_environment(flags=["oversubscribed"])}, "after ran oversubscribed"),
        ({"environment": make_environment(host="node1")}, "different hosts"),
        ({}, "not interleaved"),
    ],
)
def test_notes_on_what_a_verdict_rests_on(changes, words):
    assert any(words in note for note in compare([A], [b(**changes)]).notes)


@pytest.mark.parametrize(
    ("optimizer", "groups", "flagged"),
    [("rowwise_adagrad", 2, True), ("rowwise_adagrad", 1, False), ("sgd", 2, False)],
)
def test_another_column_split_is_another_optimizer_where_there_are_moments(optimizer, groups, flagged):
    """Dim 8 over two ranks is two shards, over one rank one."""
    plain = tiny().model_dump(mode="json")
    for table in plain["tables"]:
        table["dim"] = 8
    plain["model"]["bottom_mlp"] = [8]
    one, other = (
        make_run(
            workload=plain,
            layout={"world_size": 2, "replica_groups": m, "sharding": "column_wise"},
            optimizer={"name": optimizer},
        )
        for m in (1, groups)
    )
    found = compare([make_record(launches(10), one)], [b(run=other)])
    assert any("a moment for each" in note for note in found.notes) == flagged


def test_interleaved_sides_carry_no_such_note():
    one = [make_launch(i, started=f"2026-01-01T00:00:{2 * i:02d}+00:00") for i in range(5)]
    two = [make_launch(i, started=f"2026-01-01T00:00:{2 * i + 1:02d}+00:00") for i in range(5)]
    assert compare([make_record(one)], [b(launches=two)]).notes == ()


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (A, "named twice"),
        (b(run=TWO_D), "layout.replica_groups is 1 and 2"),
        (b(run=make_run(workload=other())), "the workloads differ"),
    ],
)
def test_a_side_is_one_configuration(second, words):
    with pytest.raises(ConfigError, match=words) as raised:
        compare([A, second], [b()])
    assert raised.value.report.field == "before"


def profiled(record: RunRecord, scale: float) -> RunRecord:
    found = [
        with_profiles(x, [make_profile([scale * (10 + x.index / 100)] * 3)] * 2) for x in record.launches
    ]
    return record.model_copy(update={"launches": tuple(found)})


def test_components_are_listed_and_decide_nothing():
    found = compare([profiled(A, 1)], [profiled(b(), 2)])
    assert rows(found)["components.lookup.exposed_ms"].ratio == pytest.approx(2)
    assert rows(found)["step_ms"].verdict == found.verdict == "equivalent"
    listed = {name for name in rows(found) if name.startswith("components.")}
    # Neither side has a replica sync; busy times and bytes are in the record.
    assert listed == {f"components.{c}.exposed_ms" for c in COMPONENTS if c != "replica_sync"}
    # Ten more metrics do not make it harder to judge those that decide.
    assert compare([A], [b()]).metrics == tuple(r for r in found.metrics if r.name not in listed)


def test_components_of_one_side_only_are_not_compared():
    assert compare([profiled(A, 1)], [b()]).metrics == compare([A], [b()]).metrics
