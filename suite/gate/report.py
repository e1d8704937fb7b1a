"""A gate as the Markdown of a pull request's comment, and as JUnit XML for a CI system's test view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from suite.gate.findings import Finding, Gate, Part
from suite.metrics import METRICS

#: So that a workflow finds its own comment again and updates it.
MARKER = "<!-- sparse2d-gate -->"
_WORDS = {"pass": "Passed", "warn": "Passed with warnings", "fail": "Failed"}
_SIGNS = {"pass": "✅", "warn": "⚠️", "fail": "❌"}


def markdown(gate: Gate, title: str, footer: Sequence[str] = ()) -> str:
    """The comment: the verdict, what failed or warned, and everything else folded away."""
    lines = [MARKER, f"## {_SIGNS[gate.status]} {title}: {gate.verdict}", "", summary(gate), ""]
    for part in gate.parts:
        lines += [f"**{part.name}**: {_SIGNS[part.status]} {part.verdict} ({_cell(part.reason)})", ""]
        shown = [row for row in part.findings if row.status != "pass" or row.verdict != "equivalent"]
        rest = [row for row in part.findings if row not in shown]
        if shown:
            lines += _table(shown)
        if rest:
            lines += ["<details><summary>" + f"{len(rest)} rows that did not change</summary>", ""]
            lines += [*_table(rest), "</details>", ""]
        lines += [f"- {_cell(note)}" for note in part.notes]
        lines += [f"- {policy_text(part)}", ""]
    lines += footer
    return "\n".join(lines).rstrip() + "\n"


def summary(gate: Gate) -> str:
    """How many figures came to which verdict, those that must be equal apart from those that have noise."""
    told = [f"{_WORDS[gate.status]}."]
    exact = [row for row in gate.findings if _is_exact(row)]
    noisy = [row for row in gate.findings if not _is_exact(row)]
    for kind, rows in (("exact", exact), ("noisy", noisy)):
        counts = Counter(row.verdict.replace("_", " ") for row in rows)
        if counts:
            verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
            told.append(f"{len(rows)} {kind} figures: {verdicts}.")
    return " ".join(told)


def _is_exact(row: Finding) -> bool:
    """Parity's figures have the names of exact ones, and are of many seeds."""
    return row.part != "parity" and row.name in METRICS and METRICS[row.name].deterministic


def policy_text(part: Part) -> str:
    """What each verdict of this part does, in one line."""
    words = part.policy.model_dump()
    return f"{part.name} policy: worse fail, " + ", ".join(f"{name} {does}" for name, does in words.items())


def junit(gate: Gate) -> str:
    """One suite a part and one case a row; rows that warn are passed with their reason as output.

    A row that did not run is an error and not a failure, so that "slower" can be told from "did not run".
    """
    root = ElementTree.Element("testsuites", name="sparse2d gate")
    for part in gate.parts:
        rows = list(part.findings)
        failed = [row for row in rows if row.status == "fail"]
        errors = [row for row in failed if row.verdict == "did_not_run"]
        empty = part.status == "fail" and not rows
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=part.name,
            tests=str(len(rows) + empty),
            failures=str(len(failed) - len(errors)),
            errors=str(len(errors) + empty),
        )
        for row in rows:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"{part.name}.{row.configuration}", name=row.name
            )
            text = f"{row.verdict}: {_text(row.reason)}"
            if row in errors:
                ElementTree.SubElement(case, "error", type=row.verdict, message=text)
            elif row.status == "fail":
                ElementTree.SubElement(case, "failure", type=row.verdict, message=text)
            else:
                ElementTree.SubElement(case, "system-out").text = text
        if empty:
            case = ElementTree.SubElement(suite, "testcase", classname=part.name, name="anything")
            ElementTree.SubElement(case, "error", type=part.verdict, message=_text(part.reason))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _table(rows: Sequence[Finding]) -> list[str]:
    lines = ["| | configuration | metric | base | head | ratio | verdict |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
        if row.low is not None and row.high is not None:
            ratio += f" [{row.low:.3f}, {row.high:.3f}]"
        unit = f" {row.unit}" if row.unit else ""
        values = ("" if v is None else f"{v:,.6g}{unit}" for v in (row.before, row.after))
        verdict = row.verdict if row.verdict == "equivalent" else f"**{row.verdict}**: {_cell(row.reason)}"
        cells = [_SIGNS[row.status], _cell(row.configuration), f"`{row.name}`", *values, ratio, verdict]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _cell(text: str) -> str:
    """Text that breaks no table and makes no markup of its own."""
    return text.replace("\n", " ").replace("|", "\\|").replace("<", "&lt;")


def _text(text: str) -> str:
    """Without characters that XML cannot hold."""
    return "".join(c for c in text if c in "\t\n" or ord(c) >= 32)
