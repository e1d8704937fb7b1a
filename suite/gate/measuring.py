"""Runs both sides, launch by launch in turn, and again where something looks worse."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite.compare import incomparable_in
from suite.errors import ConfigError, ErrorReport
from suite.gate.findings import Finding
from suite.gate.noise import fresh_launches
from suite.gate.plan import Configuration, RegressionPlan
from suite.gate.regression import Pair, Side, Suspect, judge, judge_again, notes
from suite.gate.side import Place
from suite.record import RunRecord

#: Told what goes on, a line at a time.
Tell = Callable[[str], None]
#: After so many failed launches in a row a side of a configuration is not tried again.
_GIVE_UP = 2
#: Options of a launch that is traced: also where a plan profiles nothing, to have its launches shorter.
_TRACED = ("--profile-steps", "5", "--trace", "slowest")


@dataclass
class _Collected:
    records: list[RunRecord] = field(default_factory=list)
    failures: list[ErrorReport] = field(default_factory=list)

    @property
    def is_hopeless(self) -> bool:
        return not self.records and len(self.failures) >= _GIVE_UP

    def side(self) -> Side:
        return Side(tuple(self.records), tuple(self.failures))


@dataclass(frozen=True)
class Measured:
    """The regression part as it was measured."""

    rows: list[Finding]
    pairs: list[Pair]
    fresh: list[Pair]
    suspects: list[Suspect]
    notes: list[str]


def measure(
    base: Place,
    head: Place,
    configurations: Sequence[Configuration],
    plan: RegressionPlan,
    extra: Sequence[str],
    folder: Path,
    tell: Tell,
    accepted: Collection[str] = (),
    allow_stack: bool = False,
) -> Measured:
    """Base and head in turn (A B A B), every launch in fresh processes; suspicious configurations again.

    Args:
        base, head: where each side runs.
        configurations: what both run.
        plan: how many launches, margins and policy.
        extra: further options of every ``sparse2d run``.
        folder: takes the logs.
        tell: told what goes on.
        accepted: names of metrics whose change is claimed.
        allow_stack: the two sides may be of unlike stacks.

    Raises:
        ConfigError: the stacks or the machines of the two sides differ.
    """
    pairs = interleaved(base, head, configurations, plan.launches, extra, folder / "logs", tell)
    refuse_unlike(pairs, allow_stack)
    rows, suspects = judge(pairs, plan, accepted, allow_stack)
    if not suspects:
        return Measured(rows, pairs, [], [], notes(pairs))
    names = {suspect.configuration for suspect in suspects}
    tell(
        "looks different: "
        + ", ".join(f"{s.configuration} {s.metric}" for s in suspects)
        + "; measured again"
    )
    again = [configuration for configuration in configurations if configuration.name in names]
    launches = fresh_launches(len(suspects), plan.fresh_launches)
    fresh = interleaved(base, head, again, launches, extra, folder / "logs" / "again", tell)
    rows = judge_again(rows, fresh, suspects, plan, accepted)
    return Measured(rows, pairs, fresh, suspects, notes([*pairs, *fresh]))


def trace_again(
    base: Place,
    head: Place,
    configurations: Sequence[Configuration],
    rows: Sequence[Finding],
    extra: Sequence[str],
    folder: Path,
    tell: Tell,
) -> list[str]:
    """One more launch a side, its slowest rank's trace kept, of each configuration whose time got worse.

    Returns:
        Where the traces are, and what compares them; or why there are none, which costs no verdict.
    """
    slower = {row.configuration for row in rows if row.verdict == "worse" and row.unit == "ms"}
    traced = [
        configuration.model_copy(update={"options": (*configuration.options, *_TRACED)})
        for configuration in configurations
        if configuration.name in slower
    ]
    try:
        pairs = interleaved(base, head, traced, 1, extra, folder / "logs" / "traced", tell)
    except ConfigError as error:
        return [f"no trace was taken: {error.report.message}"]
    told = []
    for pair in pairs:
        runs = [
            (place.name, place.runs / record.run.workload.name / record.spec_hash / record.run_id)
            for place, side in ((base, pair.base), (head, pair.head))
            for record in side.records
        ]
        told += [
            f"{pair.configuration}: trace of {name}: {run.relative_to(folder)}/trace" for name, run in runs
        ]
        if len(runs) == 2:
            command = shlex.join(["sparse2d", "trace", *(os.path.relpath(run) for _, run in runs)])
            told.append(f"{pair.configuration}: the difference by component: {command}")
    return told


def interleaved(
    base: Place,
    head: Place,
    configurations: Sequence[Configuration],
    launches: int,
    extra: Sequence[str],
    logs: Path,
    tell: Tell,
) -> list[Pair]:
    """So many launches a side of each configuration, one round after the other, base and head in turn."""
    found = _in_turn((base, head), configurations, launches, extra, logs, tell)
    return [Pair(c.name, found[c.name, base.name], found[c.name, head.name]) for c in configurations]


def interleaved_on(
    place: Place,
    configurations: Sequence[Configuration],
    launches: int,
    extra: Sequence[str],
    logs: Path,
    tell: Tell,
) -> dict[str, Side]:
    """So many launches of each configuration on one side, one round after the other; by configuration."""
    found = _in_turn((place,), configurations, launches, extra, logs, tell)
    return {name: side for (name, _), side in found.items()}


def _in_turn(
    places: Sequence[Place],
    configurations: Sequence[Configuration],
    launches: int,
    extra: Sequence[str],
    logs: Path,
    tell: Tell,
) -> dict[tuple[str, str], Side]:
    collected = {(c.name, place.name): _Collected() for c in configurations for place in places}
    for launch in range(launches):
        for number, configuration in enumerate(configurations):
            for place in places:
                so_far = collected[configuration.name, place.name]
                if so_far.is_hopeless:
                    continue
                tell(f"[{launch + 1}/{launches}] {configuration.name}: {place.name}")
                outcome = place.launch(configuration, extra, logs / f"{number}-{place.name}-{launch}")
                if isinstance(outcome, RunRecord):
                    so_far.records.append(outcome)
                else:
                    so_far.failures.append(outcome)
                    tell(f"    failed: {outcome.message}")
            if launch == 0:
                refused = [collected[configuration.name, place.name].failures for place in places]
                if len(places) > 1 and all(of and of[0].kind == "bad_input" for of in refused):
                    raise _refusal(configuration, refused[0][0])
    return {key: found.side() for key, found in collected.items()}


def _refusal(configuration: Configuration, why: ErrorReport) -> ConfigError:
    """What every side refuses alike is wrong in the plan or the options, and no finding about a change."""
    return ConfigError(
        why.field or "configurations", why.value, f"{configuration.name}: {why.message}", why.remedy or ""
    )


def refuse_unlike(pairs: Sequence[Pair], allow_stack: bool) -> None:
    """Refuses two sides of unlike machines or stacks.

    Raises:
        ConfigError: naming what differs.
    """
    for pair in pairs:
        if not pair.comparable:
            continue
        one, other = pair.base.records[0], pair.head.records[0]
        unlike = incomparable_in(one, other)
        if "stack" in unlike and not allow_stack:
            raise ConfigError(
                "stack",
                None,
                f"{pair.configuration}: {unlike['stack']}.",
                "Give both sides the same versions, or gate the upgrade itself with --allow-stack.",
            )
        machines = [
            {(r.environment.cpu_model, r.environment.cores) for r in side.records}
            for side in (pair.base, pair.head)
        ]
        if "device" in unlike or machines[0] != machines[1]:
            what = unlike.get("device") or "the machines differ: " + " and ".join(
                ", ".join(f"{model} with {cores} cores" for model, cores in sorted(side)) for side in machines
            )
            raise ConfigError(
                "hardware",
                None,
                f"{pair.configuration}: {what}.",
                "Measure both sides on one machine: a gate compares programs, not machines.",
            )
