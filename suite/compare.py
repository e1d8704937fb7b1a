"""Two runs, or two sets of runs: metric by metric, is ``after`` better than ``before``?

Unlike things are not compared: another workload, kind of device, stack, data or provenance makes the
verdict ``incomparable`` unless it is allowed by name. Implementation, layout and optimizer may differ, since
comparing them is the purpose; what differs is named.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, get_args

from suite.environment import STACK
from suite.errors import ConfigError
from suite.metrics import METRICS
from suite.metrics.base import Direction, Metric
from suite.record import LaunchRecord, RunRecord
from suite.spec import Frozen
from suite.statistics import ALPHA, Judgement, Verdict, judge_exact, judge_noisy, judge_paired

#: What must be alike, and may be allowed to differ by name.
Allowance = Literal["spec", "device", "stack", "data", "provenance"]
ALLOWANCES: tuple[Allowance, ...] = get_args(Allowance)

_COMPARED = tuple(metric for metric in METRICS.values() if metric.role != "figure")
#: Fields of a run that do not change what a given seed trains (the workload by its hash, the data by its
#: fingerprint).
_NOT_ARITHMETIC = {
    "workload",
    "seed",
    "launches",
    "warmup_steps",
    "launcher",
    "stall_timeout_s",
    "checkpoint",
    "profile_steps",
    "trace",
}


class MetricComparison(Judgement):
    """One row: a metric's medians on both sides, and the verdict on them."""

    name: str
    unit: str
    direction: Direction


class Difference(Frozen):
    """One setting, or module of the user's own, in which the two sides differ."""

    field: str
    before: Any
    after: Any


class Comparison(Frozen):
    """The verdict, why, and what it rests on."""

    verdict: Verdict
    reason: str
    metrics: tuple[MetricComparison, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]

    def deterministic_changes(self) -> list[MetricComparison]:
        """Deterministic metrics that came out better or worse: none in a faithful reproduction."""
        return [
            row
            for row in self.metrics
            if METRICS[row.name].deterministic and row.verdict in ("better", "worse")
        ]


def compare(
    before: Sequence[RunRecord], after: Sequence[RunRecord], allow: Collection[Allowance] = ()
) -> Comparison:
    """Compares two sets of records, each of one configuration (launches and seeds may differ).

    Raises:
        ConfigError: a side mixes configurations, or holds the same run twice.
    """
    for side, records in (("before", before), ("after", after)):
        _one_configuration(side, records, allow)
    a, b = before[0], after[0]
    facts = {
        "differences": tuple(setting_differences(a, b)),
        "notes": tuple(_notes(before, after)),
    }
    missing = [s for s, records in (("before", before), ("after", after)) if not finished_launches(records)]
    if missing:
        reason = f"no launch finished: {' and '.join(missing)}."
        return Comparison(
            verdict="did_not_run",
            reason=reason,
            metrics=_unjudged("did_not_run", reason, before, after),
            **facts,
        )
    unlike = {what: how for what, how in incomparable_in(a, b).items() if what not in allow}
    if unlike:
        reason = f"{'; '.join(unlike.values())} (--allow {','.join(unlike)} compares them all the same)."
        return Comparison(
            verdict="incomparable",
            reason=reason,
            metrics=_unjudged("incomparable", reason, before, after),
            **facts,
        )
    metrics = _judged(before, after)
    verdict, reason = _overall(metrics)
    return Comparison(verdict=verdict, reason=reason, metrics=metrics, **facts)


def _one_configuration(side: str, records: Sequence[RunRecord], allow: Collection[Allowance]) -> None:
    ids = [record.run_id for record in records]
    if len(set(ids)) < len(ids):
        raise ConfigError(
            side, ids, "the same run is named twice.", "Name each run once: its launches are the samples."
        )
    for record in records[1:]:
        unlike = [how for what, how in incomparable_in(records[0], record).items() if what not in allow]
        unlike += [
            f"{d.field} is {d.before!r} and {d.after!r}"
            for d in setting_differences(records[0], record)
            if d.field not in ("seed", "launches")
        ]
        if unlike:
            raise ConfigError(
                side,
                ids,
                f"one side must be one configuration, but: {'; '.join(unlike)}.",
                "Compare them one by one.",
            )


def incomparable_in(a: RunRecord, b: RunRecord) -> dict[Allowance, str]:
    """What makes two records incomparable, by the word that allows it."""
    found: dict[Allowance, str] = {}
    if a.spec_hash != b.spec_hash:
        names = [f"{r.run.workload.name} {r.spec_hash}" for r in (a, b)]
        found["spec"] = f"the workloads differ: {names[0]} and {names[1]}"
    if device_kind(a) != device_kind(b):
        found["device"] = f"the devices differ: {device_kind(a)} and {device_kind(b)}"
    stacks = [{k: v for k, v in r.environment.versions.items() if k in STACK} for r in (a, b)]
    if stacks[0] != stacks[1]:
        differing = sorted(k for k in STACK if stacks[0].get(k) != stacks[1].get(k))
        found["stack"] = "the stacks differ: " + ", ".join(
            f"{k} {stacks[0].get(k, 'missing')} and {stacks[1].get(k, 'missing')}" for k in differing
        )
    if all(prints := [fingerprints(r) for r in (a, b)]) and prints[0] != prints[1]:
        found["data"] = f"the data differ: fingerprints {prints[0]} and {prints[1]}"
    if a.provenance != b.provenance:
        found["provenance"] = f"one is {a.provenance}, the other {b.provenance}"
    return found


def device_kind(record: RunRecord) -> str:
    """The kind of device: ``cpu``, or ``cuda`` with the models of the GPUs."""
    if record.run.device == "cpu":
        return "cpu"
    models = sorted({line.split(",")[0] for line in record.environment.gpus})
    return f"cuda ({', '.join(models)})"


def fingerprints(record: RunRecord) -> list[str]:
    """Of the data that a record's finished launches trained on."""
    return sorted(
        {str(x.data["fingerprint"]) for x in finished_launches([record]) if "fingerprint" in x.data}
    )


def finished_launches(records: Sequence[RunRecord]) -> list[LaunchRecord]:
    """The launches that count."""
    return [launch for record in records for launch in record.launches if launch.status == "complete"]


def setting_differences(a: RunRecord, b: RunRecord) -> list[Difference]:
    """Settings and code in which two runs differ, apart from the workload."""
    one, other = (_flat(r.run.model_dump(mode="json", exclude={"workload"})) for r in (a, b))
    return [
        Difference(field=field, before=one.get(field), after=other.get(field))
        for field in sorted(one.keys() | other.keys())
        if one.get(field) != other.get(field)
    ] + _code_differences(a, b)


def _code_differences(a: RunRecord, b: RunRecord) -> list[Difference]:
    """Modules of the user's own that both runs name and that were edited in between."""
    one, other = a.environment.code, b.environment.code
    return [
        Difference(field=f"code.{module}", before=one[module], after=other[module])
        for module in sorted(one.keys() & other.keys())
        if one[module] != other[module]
    ]


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _notes(before: Sequence[RunRecord], after: Sequence[RunRecord]) -> list[str]:
    """What a reader of the verdict should know of how the two sides came about."""
    notes = []
    for side, records in (("before", before), ("after", after)):
        flags = sorted({f for r in records for f in r.environment.flags} & {"oversubscribed", "busy"})
        if flags:
            notes.append(f"{side} ran {' and '.join(flags)}: its times say little about an idle machine")
        if any(record.status != "complete" for record in records):
            notes.append(
                f"{side} is {records[0].status if len(records) == 1 else 'not complete'}: "
                "only its finished launches count"
            )
    machines = [
        {(r.environment.host, r.environment.cpu_model) for r in records} for records in (before, after)
    ]
    if machines[0] != machines[1]:
        notes.append("the two sides ran on different hosts: their times compare hosts, too")
    if edited := [d.field.removeprefix("code.") for d in _code_differences(before[0], after[0])]:
        notes.append(
            f"the code of {', '.join(edited)} was edited between the two sides: the same spec hash need not "
            "mean the same training"
        )
    runs = [records[0].run for records in (before, after)]
    splits = [records[0].column_shards for records in (before, after)]
    if splits[0] != splits[1] and any(r.columns_matter for r in runs):
        notes.append(
            "the two sides cut columns into unlike numbers of shards, and a row-wise optimizer keeps a "
            "moment for each: their quality compares two optimizers, too"
        )
    if all(_has_memory_categories(records) for records in (before, after)):
        notes.append(
            "memory.gradients, activations, communication_buffers and other are what each holds at the peak "
            "of the step, which may be in another component on the other side; `sparse2d trace` has more"
        )
    starts = [sorted(x.started for x in finished_launches(records)) for records in (before, after)]
    if all(starts) and (starts[0][-1] <= starts[1][0] or starts[1][-1] <= starts[0][0]):
        notes.append(
            "the two sides ran one after the other, not interleaved: a change of the machine in between "
            "looks like a difference"
        )
    return notes


def _has_memory_categories(records: Sequence[RunRecord]) -> bool:
    return any(rank.memory.profile for x in finished_launches(records) for rank in x.ranks)


def _judged(before: Sequence[RunRecord], after: Sequence[RunRecord]) -> tuple[MetricComparison, ...]:
    both = [m for m in _COMPARED if _values(m, before) and _values(m, after)]
    # A component that neither side has, such as the replica sync of 1D, is no news.
    both = [m for m in both if m.role == "verdict" or any((*_values(m, before), *_values(m, after)))]
    rows = []
    for role in ("verdict", "detail"):
        family = [m for m in both if m.role == role]
        noisy = [m for m in family if not m.deterministic]
        # Bonferroni: with k metrics judged, each at 1/k of the accepted chance of a false verdict.
        rows += [_row(m, _noisy(m, before, after, ALPHA / len(noisy))) for m in noisy]
        rows += [_row(m, _deterministic(m, before, after)) for m in family if m.deterministic]
    return tuple(rows)


def _values(metric: Metric, records: Sequence[RunRecord]) -> list[float]:
    return [value for record in records for value in metric.values(record)]


def _noisy(
    metric: Metric, before: Sequence[RunRecord], after: Sequence[RunRecord], alpha: float
) -> Judgement:
    assert metric.margin is not None, f"{metric.name} is noisy and has no margin"
    if min(*_values(metric, before), *_values(metric, after)) <= 0:
        return _undecided(metric, "incomparable", "a side has nothing of it: no ratio.", before, after)
    return judge_noisy(
        _values(metric, before), _values(metric, after), metric.direction, metric.margin, alpha
    )


def _deterministic(metric: Metric, before: Sequence[RunRecord], after: Sequence[RunRecord]) -> Judgement:
    """A deterministic metric: exactly, or by paired seeds where equality cannot be expected."""

    def undecided(verdict: Verdict, reason: str) -> Judgement:
        return _undecided(metric, verdict, reason, before, after)

    one, other = values_by_seed(metric, before), values_by_seed(metric, after)
    unstable = sorted(seed for side in (one, other) for seed, values in side.items() if len(values) > 1)
    if unstable:
        return undecided(
            "inconclusive", f"launches of seed {unstable[0]} do not agree: not deterministic here."
        )
    a, b = ({seed: value for seed, (value,) in side.items()} for side in (one, other))
    if not a.keys() & b.keys():
        return undecided("incomparable", f"no seed in common: {sorted(a)} and {sorted(b)}.")
    if metric.margin is None:
        return judge_exact(a, b, metric.direction)
    trained = [record.run.steps * record.run.global_batch for record in (before[0], after[0])]
    if trained[0] != trained[1]:
        return undecided("incomparable", f"trained on {trained[0]} and {trained[1]} samples.")
    if _same_arithmetic(before[0], after[0]):
        return judge_exact(a, b, metric.direction)
    return judge_paired(a, b, metric.direction, metric.margin, metric.floor)


def values_by_seed(metric: Metric, records: Sequence[RunRecord]) -> dict[int, set[float]]:
    """The values of each seed that has any: one of them where the metric really is deterministic."""
    found: dict[int, set[float]] = {}
    for record in records:
        if values := metric.values(record):
            found.setdefault(record.run.seed, set()).update(values)
    return found


def _same_arithmetic(a: RunRecord, b: RunRecord) -> bool:
    """Whether both train the same model to the last bit: same settings, code, stack, processor, threads."""

    def how(record: RunRecord) -> tuple[Any, ...]:
        environment = record.environment
        return (
            record.spec_hash,
            fingerprints(record),
            record.run.model_dump(exclude=_NOT_ARITHMETIC),
            environment.cpu_model,
            device_kind(record),
            {k: environment.versions.get(k) for k in STACK},
            {rank.threads for launch in finished_launches([record]) for rank in launch.ranks},
        )

    return how(a) == how(b) and not _code_differences(a, b)


def _undecided(
    metric: Metric, verdict: Verdict, reason: str, before: Sequence[RunRecord], after: Sequence[RunRecord]
) -> Judgement:
    """Both medians, for the reader's information, and no more."""
    medians = [
        statistics.median(values) if (values := _values(metric, side)) else None for side in (before, after)
    ]
    return Judgement(
        before=medians[0], after=medians[1], ratio=None, low=None, high=None, verdict=verdict, reason=reason
    )


def _unjudged(
    verdict: Verdict, reason: str, before: Sequence[RunRecord], after: Sequence[RunRecord]
) -> tuple[MetricComparison, ...]:
    """A row for each metric that either side has, without a verdict of its own."""
    return tuple(
        _row(metric, _undecided(metric, verdict, reason, before, after))
        for metric in _COMPARED
        if _values(metric, (*before, *after))
    )


def _row(metric: Metric, judgement: Judgement) -> MetricComparison:
    return MetricComparison(
        name=metric.name, unit=metric.unit, direction=metric.direction, **judgement.model_dump()
    )


def _overall(metrics: Sequence[MetricComparison]) -> tuple[Verdict, str]:
    """Worse if any metric is; else better if any is; else equivalent only if every one is.

    Details do not count.
    """
    metrics = [row for row in metrics if METRICS[row.name].role == "verdict"]
    found = {row.verdict for row in metrics}
    parts = [
        f"{verdict}: {', '.join(row.name for row in metrics if row.verdict == verdict)}"
        for verdict in ("worse", "better", "inconclusive", "incomparable")
        if verdict in found
    ]
    reason = "; ".join(parts) or "every metric is equivalent"
    if "worse" in found or "better" in found:
        return ("worse" if "worse" in found else "better"), reason
    return ("equivalent" if found == {"equivalent"} else "inconclusive"), reason
