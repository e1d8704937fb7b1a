from __future__ import annotations

from suite.gate.findings import PartName, Policy, finding, make_gate, make_part, unmeasured
from suite.gate.report import summary
from suite.metrics import METRICS
from suite.statistics import Verdict


def part(name: PartName, *rows: tuple[str, Verdict]):
    found = [
        finding(name, "one", metric, "", METRICS[metric].direction, unmeasured(verdict, "so"), Policy())
        for metric, verdict in rows
    ]
    return make_part(name, found, Policy())


def test_what_must_be_equal_is_counted_apart_from_what_has_noise():
    # The AUC of a seed is exact. Parity's is of many seeds, which cannot tell.
    regression = part("regression", ("auc", "equivalent"), ("bytes", "worse"), ("step_ms", "inconclusive"))
    parity = part("parity", ("auc", "inconclusive"))
    assert summary(make_gate([regression, parity])) == (
        "Failed. 2 exact figures: 1 equivalent, 1 worse. 2 noisy figures: 2 inconclusive."
    )


def test_what_did_not_run_is_counted_too():
    assert summary(make_gate([part("regression", ("bytes", "equivalent"), ("auc", "did_not_run"))])) == (
        "Failed. 2 exact figures: 1 equivalent, 1 did not run."
    )
