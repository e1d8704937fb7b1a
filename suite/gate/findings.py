"""What a gate finds: rows, parts, and the verdict over them. A row fails, warns or passes by its policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from suite.compare import MetricComparison
from suite.metrics.base import Direction
from suite.spec import Frozen
from suite.statistics import Judgement, Verdict

PartName = Literal["regression", "scaling", "parity"]
Status = Literal["pass", "warn", "fail"]
#: Rows that have a word of the policy to themselves.
Special = Literal["missing", "quality"]
#: The first of these that any row has is the verdict of its part, and of the gate.
_WORST_FIRST: tuple[Verdict, ...] = ("worse", "did_not_run", "incomparable", "inconclusive", "better")


class Policy(Frozen):
    """What becomes of rows that are neither equivalent nor worse. ``worse`` always fails.

    Attributes:
        did_not_run: nothing was measured: a side failed, or this place cannot measure it.
        missing: one side has the figure and the other has not.
        incomparable: the sides are not of the same kind.
        inconclusive: measured, and it cannot be told.
        better: an improvement that nobody has claimed by renewing the expected values.
        quality: with a fixed seed quality changed, though not for the worse. What is trained has changed, and
            one seed cannot tell a better model from luck.
    """

    did_not_run: Literal["fail", "warn"] = "fail"
    missing: Literal["fail", "warn"] = "fail"
    incomparable: Literal["fail", "warn"] = "fail"
    inconclusive: Literal["fail", "warn"] = "warn"
    better: Literal["fail", "warn"] = "warn"
    quality: Literal["fail", "warn"] = "fail"


class Finding(MetricComparison):
    """One metric of one configuration: both sides, the verdict, and whether that fails the gate."""

    part: PartName
    configuration: str
    status: Status


class Part(Frozen):
    """One part of a gate: its verdict is that of its worst row, or ``did_not_run`` without rows."""

    name: PartName
    verdict: Verdict
    status: Status
    reason: str
    policy: Policy
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


class Gate(Frozen):
    """The whole verdict."""

    verdict: Verdict
    status: Status
    reason: str
    parts: tuple[Part, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All rows, part by part."""
        return tuple(finding for part in self.parts for finding in part.findings)


def finding(
    part: PartName,
    configuration: str,
    name: str,
    unit: str,
    direction: Direction,
    judged: Judgement,
    policy: Policy,
    special: Special | None = None,
    accepted: bool = False,
) -> Finding:
    """A row. A ``special`` one is judged by that word of the policy; an ``accepted`` one never fails."""
    if judged.verdict == "equivalent":
        status: Status = "pass"
    elif accepted:
        status = "warn"
    elif judged.verdict == "worse":
        status = "fail"
    else:
        status = getattr(policy, special or judged.verdict)
    reason = f"{judged.reason} Accepted by name." if accepted and status == "warn" else judged.reason
    content: dict[str, Any] = judged.model_dump() | {"reason": reason}
    return Finding(
        part=part,
        configuration=configuration,
        name=name,
        unit=unit,
        direction=direction,
        status=status,
        **content,
    )


def unmeasured(verdict: Verdict, reason: str) -> Judgement:
    """A judgement without figures."""
    return Judgement(before=None, after=None, ratio=None, low=None, high=None, verdict=verdict, reason=reason)


def make_part(name: PartName, findings: Sequence[Finding], policy: Policy, notes: Sequence[str] = ()) -> Part:
    """The part of these rows. A part without any has measured nothing, and its policy says what that does."""
    if not findings:
        return Part(
            name=name,
            verdict="did_not_run",
            status=policy.did_not_run,
            reason="nothing was measured",
            policy=policy,
            findings=(),
            notes=tuple(notes),
        )
    verdict = _worst([row.verdict for row in findings])
    return Part(
        name=name,
        verdict=verdict,
        status=_strictest([row.status for row in findings]),
        reason=_reason(verdict, findings),
        policy=policy,
        findings=tuple(findings),
        notes=tuple(notes),
    )


def make_gate(parts: Sequence[Part]) -> Gate:
    """The verdict over all parts.

    A gate in which nothing at all was judged fails, whatever the policies say: it has shown nothing.
    """
    verdict = _worst([part.verdict for part in parts])
    status = _strictest([part.status for part in parts])
    reason = "; ".join(f"{part.name}: {part.verdict} ({part.reason})" for part in parts)
    rows = [row for part in parts for row in part.findings]
    if all(row.verdict in ("did_not_run", "incomparable") for row in rows):
        return Gate(
            verdict="did_not_run",
            status="fail",
            reason=f"nothing was judged. {reason}",
            parts=tuple(parts),
        )
    return Gate(verdict=verdict, status=status, reason=reason, parts=tuple(parts))


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    return next((v for v in _WORST_FIRST if v in verdicts), "equivalent")


def _strictest(statuses: Sequence[Status]) -> Status:
    ranked: tuple[Status, ...] = ("fail", "warn")
    return next((status for status in ranked if status in statuses), "pass")


def _reason(verdict: Verdict, findings: Sequence[Finding]) -> str:
    """Which rows made it that, the first few by name."""
    if verdict == "equivalent":
        return f"all {len(findings)} rows"
    names = [f"{row.configuration} {row.name}" for row in findings if row.verdict == verdict]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{', '.join(names[:5])}{more}"
