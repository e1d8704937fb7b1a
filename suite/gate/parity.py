"""Quality of 2D against 1D, and of head against base, over paired seeds: an equivalence test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from suite.errors import ErrorReport
from suite.gate.findings import Finding, finding, unmeasured
from suite.gate.plan import ParityPlan
from suite.gate.regression import Side
from suite.metrics import METRICS
from suite.statistics import Judgement, judge_exact, judge_paired

#: The arms of ``sparse2d parity``, and what they train in.
ARMS = {"baseline": "1D", "candidate": "2D"}
PARITY_METRICS = ("auc", "normalized_entropy")


def virtual_arguments(plan: ParityPlan) -> list[str]:
    """The command line of ``sparse2d parity``, after ``sparse2d``, without ``--runs``."""
    groups, seeds = str(plan.replica_groups), str(plan.seeds)
    return ["parity", plan.workload, "--replica-groups", groups, "--seeds", seeds, *plan.options]


def judge_virtual(
    plan: ParityPlan, head: Mapping[str, Any] | ErrorReport, base: Mapping[str, Any] | ErrorReport | None
) -> list[Finding]:
    """Rows of documents of ``sparse2d parity``: head's 2D against its 1D, and each arm against base's.

    Args:
        plan: what was run.
        head: the document of head, or why there is none.
        base: the same of base; None where there is no base.
    """
    against = f"2D M={plan.replica_groups} against 1D"
    if isinstance(head, ErrorReport):
        return [_row(plan, against, "auc", unmeasured("did_not_run", f"head: {head.message}"))]
    rows = [
        _row(
            plan,
            against,
            check["metric"],
            Judgement(
                before=head["arms"]["baseline"][check["metric"]]["mean"],
                after=head["arms"]["candidate"][check["metric"]]["mean"],
                ratio=None,
                low=check["difference"]["low"],
                high=check["difference"]["high"],
                verdict=check["verdict"],
                reason=f"difference {check['difference']['mean']:+.5f}, margin {check['margin']:.5f}: "
                f"{check['reason']}",
            ),
        )
        for check in head["checks"]
        if check["metric"] == head["metric"] or check["verdict"] == "worse"
    ]
    if base is None:
        return rows
    if isinstance(base, ErrorReport):
        judged = unmeasured("did_not_run", f"base: {base.message}")
        return [*rows, _row(plan, "head against base", "auc", judged)]
    margins = {check["metric"]: check["margin"] for check in head["checks"]}
    for arm, label in ARMS.items():
        for metric in PARITY_METRICS:
            one, other = (
                dict(zip(document["seeds"], document["arms"][arm][metric]["per_seed"], strict=True))
                for document in (base, head)
            )
            judged = _judge_sides(one, other, metric, margins[metric])
            rows.append(_row(plan, f"{label}, head against base", metric, judged))
    return rows


def judge_real(plan: ParityPlan, one_d: Side, head: Side, base: Side | None) -> list[Finding]:
    """Rows of runs of real ranks, a seed each: head's 2D against 1D, and against base's 2D."""
    rows = []
    pairs = [(f"2D M={plan.replica_groups} against 1D", one_d, head)]
    if base is not None:
        pairs.append(("2D, head against base", base, head))
    for name, before, after in pairs:
        failed = [f for side in (before, after) for f in side.failures]
        if failed or not before.records or not after.records:
            why = failed[0].message if failed else "a side has no record."
            rows.append(_row(plan, name, "auc", unmeasured("did_not_run", why)))
            continue
        goal = after.records[0].run.workload.parity
        metric = goal.metric
        one, other = _per_seed(before, metric), _per_seed(after, metric)
        if not one.keys() & other.keys():
            judged = unmeasured("did_not_run", "the workload holds out no samples to evaluate.")
        else:
            share = sum(one.values()) / len(one) if metric == "normalized_entropy" else 1
            margin = goal.auc_margin if metric == "auc" else goal.normalized_entropy_margin * share
            judged = _judge_sides(one, other, metric, margin)
        rows.append(_row(plan, name, metric, judged))
    return rows


def _judge_sides(
    one: Mapping[int, float], other: Mapping[int, float], metric: str, margin: float
) -> Judgement:
    exact = judge_exact(one, other, METRICS[metric].direction)
    if exact.verdict == "equivalent":
        return exact
    return judge_paired(one, other, METRICS[metric].direction, margin, METRICS[metric].floor)


def _per_seed(side: Side, metric: str) -> dict[int, float]:
    return {record.run.seed: value for record in side.records for value in METRICS[metric].values(record)}


def _row(plan: ParityPlan, configuration: str, metric: str, judged: Judgement) -> Finding:
    found = METRICS[metric]
    return finding("parity", configuration, metric, found.unit, found.direction, judged, plan.policy)
