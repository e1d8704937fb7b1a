"""Expected values: deterministic figures of each configuration, in a file that is renewed on purpose.

Bytes, calls and the bytes of parameters follow from the specification, on any machine. Quality follows from
it on one processor; on another the order of floating-point sums differs, and with it the last digits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError, model_validator

from suite.errors import ConfigError, ErrorReport
from suite.files import write_whole
from suite.gate.findings import Finding, finding, unmeasured
from suite.gate.parity import ARMS, PARITY_METRICS
from suite.gate.plan import ExpectedPlan
from suite.gate.regression import DETERMINISTIC, Side
from suite.metrics import METRICS
from suite.spec import Frozen
from suite.statistics import Judgement, Verdict


class ExpectedConfiguration(Frozen):
    """The figures of one configuration, and the workload that they are of."""

    spec_hash: str
    metrics: dict[str, float]


class ExpectedParity(Frozen):
    """Quality of both arms of ``sparse2d parity``, metric by metric, one value a seed."""

    seeds: tuple[int, ...]
    arms: dict[str, dict[str, tuple[float, ...]]]

    @model_validator(mode="after")
    def _whole(self) -> ExpectedParity:
        for arm in ARMS:
            for metric in PARITY_METRICS:
                if len(self.arms.get(arm, {}).get(metric, ())) != len(self.seeds):
                    raise ValueError(f"{arm} needs a value of {metric} for each seed")
        return self


class Expected(Frozen):
    """The whole file."""

    schema_version: Literal[1] = 1
    configurations: dict[str, ExpectedConfiguration]
    parity: ExpectedParity | None = None


def load_expected(path: Path) -> Expected:
    """The expected values in a file.

    Raises:
        ConfigError: there is none yet, or it is not valid.
    """
    renew = "Renew it: the same command with --renew writes it."
    try:
        expected = Expected.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            "expected", str(path), f"no baseline: the file cannot be read: {error.strerror}.", renew
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            "expected", str(path), f"{field or 'it'} is not valid: {first['msg']}.", renew
        ) from error
    for name, configuration in expected.configurations.items():
        for metric in configuration.metrics:
            if metric not in METRICS or not METRICS[metric].deterministic:
                raise ConfigError(
                    "expected",
                    str(path),
                    f"{name}: there is no deterministic metric {metric!r}.",
                    f"Check its spelling. {renew}",
                )
    return expected


def expected_of(sides: Mapping[str, Side], parity: Mapping[str, Any] | ErrorReport | None) -> Expected:
    """What these records, and this document of ``sparse2d parity``, came to, as expected values.

    Raises:
        ConfigError: one of them did not run: nothing can be expected of it.
    """
    if isinstance(parity, ErrorReport):
        raise ConfigError(
            "renew", "parity", f"it did not run: {parity.message}", "Mend it first; nothing was written."
        )
    configurations = {}
    for name, side in sides.items():
        if not side.records or side.failures:
            why = side.failures[0].message if side.failures else "it has no record."
            raise ConfigError("renew", name, f"it did not run: {why}", "Mend it first; nothing was written.")
        configurations[name] = ExpectedConfiguration(
            spec_hash=side.records[0].spec_hash, metrics=_figures(side)
        )
    return Expected(configurations=configurations, parity=None if parity is None else _arms(parity))


def save_expected(expected: Expected, path: Path) -> None:
    """Writes the file, whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    text = json.dumps(expected.model_dump(mode="json"), indent=1, sort_keys=True)
    try:
        write_whole(path, text + "\n")
    except OSError as error:
        raise ConfigError(
            "expected", str(path), f"it cannot be written: {error.strerror}.", "Name another file."
        ) from error


def judge_expected(expected: Expected, sides: Mapping[str, Side], plan: ExpectedPlan) -> list[Finding]:
    """Each configuration against what is expected of it; what only one of them has is missing."""
    rows: list[Finding] = []

    def add(configuration: str, name: str, judged: Judgement, missing: bool = False) -> None:
        metric = METRICS.get(name)
        rows.append(
            finding(
                "regression",
                configuration,
                name,
                "" if metric is None else metric.unit,
                "lower" if metric is None else metric.direction,
                judged,
                plan.policy,
                special="missing" if missing else None,
            )
        )

    for name in dict.fromkeys((*expected.configurations, *sides)):
        known, side = expected.configurations.get(name), sides.get(name)
        if side is not None and (side.failures or not side.records):
            why = side.failures[0] if side.failures else None
            message = "it has no record." if why is None else why.message
            where = "" if why is None or why.rank is None else f"rank {why.rank}: "
            add(name, "launches_failed", unmeasured("did_not_run", f"{where}{message}"))
        elif known is None or side is None:
            who = "nothing is expected of it yet" if known is None else "the plan has no such configuration"
            add(name, "records", unmeasured("did_not_run", f"{who}."), missing=True)
        elif known.spec_hash != side.records[0].spec_hash:
            reason = f"the workload has changed: {known.spec_hash} and {side.records[0].spec_hash}."
            add(name, "records", unmeasured("incomparable", reason))
        else:
            figures = _figures(side)
            for metric in dict.fromkeys((*known.metrics, *figures)):
                if metric not in figures or metric not in known.metrics:
                    who = "was not measured" if metric not in figures else "is not in the expected values"
                    add(name, metric, unmeasured("did_not_run", f"it {who}."), missing=True)
                else:
                    add(name, metric, _against(known.metrics[metric], figures[metric], metric, plan))
    return rows


def judge_expected_parity(expected: Expected, parity: Mapping[str, Any], plan: ExpectedPlan) -> list[Finding]:
    """Both arms of ``sparse2d parity`` against what is expected of them: the seed that differs most."""
    found = _arms(parity)
    if expected.parity is None or expected.parity.seeds != found.seeds:
        why = "no seeds are expected" if expected.parity is None else f"expected of {expected.parity.seeds}"
        judged = unmeasured("did_not_run", f"{why}, and trained were {found.seeds}.")
        return [finding("parity", "expected", "seeds", "", "lower", judged, plan.policy, special="missing")]
    rows = []
    for arm, metrics in found.arms.items():
        for metric, values in metrics.items():
            pairs = zip(expected.parity.arms[arm][metric], values, strict=True)
            known, value = max(pairs, key=lambda pair: abs(pair[1] - pair[0]))
            rows.append(
                finding(
                    "parity",
                    f"{arm}, expected",
                    metric,
                    METRICS[metric].unit,
                    METRICS[metric].direction,
                    _against(known, value, metric, plan),
                    plan.policy,
                )
            )
    return rows


def _arms(parity: Mapping[str, Any]) -> ExpectedParity:
    return ExpectedParity(
        seeds=tuple(parity["seeds"]),
        arms={
            arm: {metric: tuple(parity["arms"][arm][metric]["per_seed"]) for metric in PARITY_METRICS}
            for arm in ARMS
        },
    )


def _figures(side: Side) -> dict[str, float]:
    found = {}
    for metric in DETERMINISTIC:
        values: Sequence[float] = [value for record in side.records for value in metric.values(record)]
        if values and any(values):
            found[metric.name] = values[0]
    return found


def _against(known: float, found: float, metric: str, plan: ExpectedPlan) -> Judgement:
    tolerance = plan.tolerances.get(metric, 0.0)
    gain = (found - known) * (1 if METRICS[metric].direction == "higher" else -1)
    within = "equal" if tolerance == 0 else f"within {tolerance:g}"
    verdict: Verdict = "equivalent" if abs(gain) <= tolerance else "better" if gain > 0 else "worse"
    return Judgement(
        before=known,
        after=found,
        ratio=found / known if known else None,
        low=None,
        high=None,
        verdict=verdict,
        reason=f"{within}." if verdict == "equivalent" else f"not {within}: {found - known:+.6g}.",
    )
