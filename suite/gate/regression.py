"""Base against head, metric by metric, on records that exist: nothing is run here."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from suite.compare import incomparable_in, setting_differences, values_by_seed
from suite.errors import ErrorReport
from suite.gate.findings import Finding, Special, finding, unmeasured
from suite.gate.noise import first_look, only_look, second_look
from suite.gate.plan import RegressionPlan
from suite.metrics import METRICS
from suite.metrics.base import Metric
from suite.metrics.quality import METRICS as QUALITY
from suite.record import QualityRecord, RunRecord
from suite.statistics import Judgement, judge_exact, judge_paired

#: One over samples_per_s: one of the two is judged.
_RECIPROCAL = "samples_per_s"
_COMPONENT = "components."

#: Bytes of a component are those of the slowest rank, and which one that is changes from launch to launch.
DETERMINISTIC: tuple[Metric, ...] = tuple(
    metric
    for metric in METRICS.values()
    if metric.deterministic and not (metric.name.startswith(_COMPONENT) and metric.name.endswith("bytes"))
)
NOISY: tuple[Metric, ...] = tuple(
    metric
    for metric in METRICS.values()
    if not metric.deterministic
    and metric.name != _RECIPROCAL
    and (metric.role != "figure" or metric.name == "profiling_cost")
)


@dataclass(frozen=True)
class Side:
    """What one side of one configuration came to: a record a launch, and what went wrong in the others."""

    records: tuple[RunRecord, ...] = ()
    failures: tuple[ErrorReport, ...] = ()


@dataclass(frozen=True)
class Pair:
    """Both sides of one configuration."""

    configuration: str
    base: Side
    head: Side

    @property
    def comparable(self) -> bool:
        """Whether both sides have a launch to judge."""
        return bool(self.base.records and self.head.records)


@dataclass(frozen=True)
class Suspect:
    """A metric of a configuration that looks different and is to be measured again."""

    configuration: str
    metric: str


def judge(
    pairs: Sequence[Pair],
    plan: RegressionPlan,
    accepted: Collection[str] = (),
    other_stack: bool = False,
    may_rerun: bool = True,
) -> tuple[list[Finding], list[Suspect]]:
    """Judges the first launches of all configurations.

    Args:
        pairs: what both sides came to.
        plan: margins and policy.
        accepted: names of metrics whose change is claimed; their rows do not fail.
        other_stack: the stacks differ by permission, so that quality is not expected to be equal.
        may_rerun: where nothing can be run again, as on saved records, the first look decides, at 1 % over
            all noisy metrics together.

    Returns:
        The rows, and the metrics that look different (none without ``may_rerun``).
    """
    noisy = {pair.configuration: judged_noisy(pair, plan) for pair in pairs if pair.comparable}
    total = max(1, sum(len(metrics) for metrics in noisy.values()))
    rows: list[Finding] = []
    suspects: list[Suspect] = []

    for pair in pairs:
        rows += _failures(pair, plan)
        if not pair.comparable:
            continue
        if unlike := incomparable_in(pair.base.records[0], pair.head.records[0]):
            how = "; ".join(how for what, how in unlike.items() if not (what == "stack" and other_stack))
            if how:
                rows.append(_row(pair, plan, None, unmeasured("incomparable", f"{how}.")))
                continue
        for metric in noisy[pair.configuration]:
            one, other = _values(metric, pair.base), _values(metric, pair.head)
            margin = plan.margin(metric)
            if min(*one, *other) <= 0:
                judged = without_ratio(metric, one, other)
            elif may_rerun:
                judged, suspicious = first_look(one, other, metric.direction, margin)
                if suspicious:
                    suspects.append(Suspect(pair.configuration, metric.name))
            else:
                judged = only_look(one, other, metric.direction, margin, total)
            rows.append(_row(pair, plan, metric, judged, accepted=metric.name in accepted))
        rows += _deterministic_rows(pair, plan, accepted, other_stack)
        rows += _missing(pair, plan)
    return rows, suspects


def judge_again(
    rows: Sequence[Finding],
    fresh: Sequence[Pair],
    suspects: Sequence[Suspect],
    plan: RegressionPlan,
    accepted: Collection[str] = (),
) -> list[Finding]:
    """The rows with those of the suspects judged on fresh launches alone."""
    found = {pair.configuration: pair for pair in fresh}
    replaced: list[Finding] = []
    for row in rows:
        if Suspect(row.configuration, row.name) not in suspects:
            replaced.append(row)
            continue
        pair, metric = found[row.configuration], METRICS[row.name]
        one, other = _values(metric, pair.base), _values(metric, pair.head)
        if one and other and min(*one, *other) > 0:
            judged = second_look(one, other, metric.direction, plan.margin(metric), len(suspects))
        else:
            judged = unmeasured("did_not_run", "it looked different, and the rerun did not measure it.")
        replaced.append(_row(pair, plan, metric, judged, accepted=metric.name in accepted))
    return replaced + [row for pair in fresh for row in _failures(pair, plan)]


def notes(pairs: Sequence[Pair]) -> list[str]:
    """What else a reader should know: settings that changed, and flags of the machine."""
    found: dict[str, None] = {}
    for pair in pairs:
        if pair.comparable:
            for changed in setting_differences(pair.base.records[0], pair.head.records[0]):
                found[f"{pair.configuration}: {changed.field} {changed.before} -> {changed.after}"] = None
        records = (*pair.base.records, *pair.head.records)
        flags = {flag for record in records for flag in record.environment.flags}
        if disturbing := sorted(flags & {"oversubscribed", "busy"}):
            found[f"{pair.configuration}: some launches ran {' and '.join(disturbing)}"] = None
    return list(found)


def judged_noisy(pair: Pair, plan: RegressionPlan) -> list[Metric]:
    """Noisy metrics that both sides have, without components too small to be judged."""
    found = []
    steps = [_values(METRICS["step_ms"], side) for side in (pair.base, pair.head)]
    for metric in NOISY:
        sides = [_values(metric, side) for side in (pair.base, pair.head)]
        if not all(sides):
            continue
        if metric.name.startswith(_COMPONENT):
            shares = [
                statistics.median(of_side) / statistics.median(step)
                for of_side, step in zip(sides, steps, strict=True)
            ]
            if max(shares) < plan.smallest_component or max(shares) <= 0:
                continue
        found.append(metric)
    return found


def without_ratio(metric: Metric, one: Sequence[float], other: Sequence[float]) -> Judgement:
    """Where a launch has none of a metric. Bytes that one side always has and the other never: no noise."""
    if not any((*one, *other)):
        return _medians(one, other, "neither side has any of it.").model_copy(
            update={"verdict": "equivalent"}
        )
    judged = _medians(one, other, "some launches have none of it, so that there is no ratio.")
    if metric.unit == "B" and (max(one) <= 0 < min(other) or max(other) <= 0 < min(one)):
        grew = max(one) <= 0
        verdict = "worse" if grew == (metric.direction == "lower") else "better"
        judged = judged.model_copy(
            update={"verdict": verdict, "reason": "one side has none of it in any launch, the other in all."}
        )
    return judged


def _deterministic_rows(
    pair: Pair, plan: RegressionPlan, accepted: Collection[str], other_stack: bool
) -> list[Finding]:
    rows = []
    other_samples = _evaluated_otherwise(pair)
    for metric in DETERMINISTIC:
        one, other = values_by_seed(metric, pair.base.records), values_by_seed(metric, pair.head.records)
        if not one or not other or not any(v for side in (one, other) for x in side.values() for v in x):
            continue
        special: Special | None = None
        unstable = [s for side in (one, other) for s, values in side.items() if len(values) > 1]
        if metric in QUALITY and other_samples is not None:
            judged = unmeasured("did_not_run", other_samples)
        elif unstable:
            judged = _medians(
                _values(metric, pair.base),
                _values(metric, pair.head),
                f"launches of seed {unstable[0]} do not agree: it is not deterministic here.",
            )
        elif not one.keys() & other.keys():
            judged = unmeasured("incomparable", f"no seed in common: {sorted(one)} and {sorted(other)}.")
        else:
            a, b = ({seed: value for seed, (value,) in side.items()} for side in (one, other))
            if metric in QUALITY and other_stack and metric.margin is not None:
                judged = judge_paired(a, b, metric.direction, metric.margin, metric.floor)
            else:
                judged = judge_exact(a, b, metric.direction)
            if metric in QUALITY and judged.verdict == "better" and not other_stack:
                special = "quality"
                judged = judged.model_copy(
                    update={
                        "verdict": "inconclusive",
                        "reason": "with the same seed it has changed, for the better: another training, and "
                        "one seed cannot tell a better model from luck.",
                    }
                )
        rows.append(_row(pair, plan, metric, judged, special, accepted=metric.name in accepted))
    return rows


def _evaluated_otherwise(pair: Pair) -> str | None:
    """How the samples that the two sides were evaluated on differ; None where they do not."""
    sides = [
        {_split(launch.quality) for record in side.records for launch in record.launches if launch.quality}
        for side in (pair.base, pair.head)
    ]
    if not all(sides) or sides[0] == sides[1]:
        return None
    one, other = (sorted(side)[0] for side in sides)
    return f"head was evaluated on other samples than base: {other}, not {one}."


def _split(quality: QualityRecord) -> str:
    return f"{quality.samples:,} of {quality.split!r} with {quality.base_rate:.4%} clicks"


def _missing(pair: Pair, plan: RegressionPlan) -> list[Finding]:
    """Figures that one side has and the other has not."""
    rows = []
    for metric in (*NOISY, *DETERMINISTIC):
        has = [bool(_values(metric, side)) for side in (pair.base, pair.head)]
        if has[0] != has[1]:
            who, who_not = ("base", "head") if has[0] else ("head", "base")
            judged = unmeasured("did_not_run", f"{who} measured it, {who_not} did not.")
            rows.append(_row(pair, plan, metric, judged, "missing"))
    return rows


def _failures(pair: Pair, plan: RegressionPlan) -> list[Finding]:
    """A row that says how many launches failed, and why, where any did or none was made."""
    sides = {"base": pair.base, "head": pair.head}
    why = []
    for name, side in sides.items():
        if side.failures:
            first = side.failures[0]
            tried = len(side.records) + len(side.failures)
            where = "" if first.rank is None else f"rank {first.rank}: "
            field = "" if first.field is None else f"{first.field}: "
            why.append(
                f"{name} failed in {len(side.failures)} of {tried} launches: {where}{field}{first.message}"
            )
        elif not side.records:
            why.append(f"{name} has no record of it.")
    if not why:
        return []
    judged = unmeasured("did_not_run", " ".join(why))
    judged = judged.model_copy(
        update={"before": float(len(pair.base.failures)), "after": float(len(pair.head.failures))}
    )
    special: Special | None = None if pair.base.failures or pair.head.failures else "missing"
    return [
        finding(
            "regression",
            pair.configuration,
            "launches_failed",
            "",
            "lower",
            judged,
            plan.policy,
            special=special,
        )
    ]


def _row(
    pair: Pair,
    plan: RegressionPlan,
    metric: Metric | None,
    judged: Judgement,
    special: Special | None = None,
    accepted: bool = False,
) -> Finding:
    return finding(
        "regression",
        pair.configuration,
        "records" if metric is None else metric.name,
        "" if metric is None else metric.unit,
        "lower" if metric is None else metric.direction,
        judged,
        plan.policy,
        special=special,
        accepted=accepted,
    )


def _values(metric: Metric, side: Side) -> list[float]:
    return [value for record in side.records for value in metric.values(record)]


def _medians(one: Sequence[float], other: Sequence[float], reason: str) -> Judgement:
    return unmeasured("inconclusive", reason).model_copy(
        update={"before": statistics.median(one), "after": statistics.median(other)}
    )
