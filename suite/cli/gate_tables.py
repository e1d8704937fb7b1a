"""How a gate looks on a terminal."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console

from suite.cli.documents import QUALITY
from suite.cli.tables import ABSENT, COLOURS, number, size, table
from suite.gate.calibration import Calibration
from suite.gate.findings import Finding, Gate
from suite.gate.report import policy_text, summary

_STATUS = {"pass": "green", "warn": "yellow", "fail": "red"}


def show_gate(gate: Gate, console: Console) -> None:
    """Part by part and configuration by configuration: figures, why, policy; the verdict last."""
    for part in gate.parts:
        console.print(f"[bold]{part.name}[/bold]: [{COLOURS[part.verdict]}]{part.verdict}[/]")
        for configuration, of_it in groupby(part.findings, key=lambda row: row.configuration):
            rows = list(of_it)
            # Deterministic figures that are equal have nothing to show.
            shown = [row for row in rows if row.verdict != "equivalent" or row.low is not None]
            made = table(configuration, "base", "head", "ratio", "verdict", "")
            made.columns[0].overflow = "fold"
            for row in shown:
                verdict = f"[{COLOURS[row.verdict]}]{row.verdict}[/]"
                status = "" if row.status == "pass" else f"[{_STATUS[row.status]}]{row.status}[/]"
                made.add_row(
                    row.name, _value(row, row.before), _value(row, row.after), _ratio(row), verdict, status
                )
            if shown:
                console.print(made)
            if len(shown) < len(rows):
                where = "" if shown else f"{configuration}: "
                console.print(f"{where}{len(rows) - len(shown)} figures as they should be.", highlight=False)
            for row in shown:
                if row.verdict != "equivalent" and (row.status != "pass" or row.verdict == "better"):
                    console.print(f"{row.name}: {row.reason}", markup=False, soft_wrap=True)
        for note in part.notes:
            console.print(f"Note: {note}.", markup=False, soft_wrap=True)
        console.print(f"{policy_text(part)}.", markup=False, soft_wrap=True)
    console.print(summary(gate), markup=False, highlight=False, soft_wrap=True)
    colour = _STATUS[gate.status]
    console.print(f"Verdict: [bold {colour}]{gate.verdict}, {gate.status}[/]", end=" ")
    console.print(f"({gate.reason})", markup=False, soft_wrap=True)


def show_calibration(found: Calibration, console: Console) -> None:
    """What a gate can see here, and the margins as a plan takes them."""
    for configuration, sights in groupby(found.sights, key=lambda sight: sight.configuration):
        made = table(configuration, "spread", "A/A margin", "seen 9 of 10")
        for sight in sights:
            seen = ABSENT if sight.smallest is None else f"{sight.smallest:.0%}"
            made.add_row(sight.name, f"{sight.spread:.1%}", f"{sight.margin:.1%}", seen)
        console.print(made)
    console.print(
        f"{found.gates} gates drawn from {found.launches} launches: {found.false_alarms:.2%} false alarms, "
        f"{found.second_looks:.1%} looked twice.",
        highlight=False,
        soft_wrap=True,
    )
    console.print("[regression.margins]", markup=False)
    for name, margin in found.margins.items():
        console.print(f'"{name}" = {margin:g}', markup=False, highlight=False)


def _value(row: Finding, value: float | None) -> str:
    if value is None:
        return ABSENT
    if row.name in QUALITY:
        return f"{value:.5f}"
    return size(value) if row.unit.startswith("B") else number(value)


def _ratio(row: Finding) -> str:
    if row.ratio is None:
        return ABSENT
    return f"{row.ratio:.3f}"
