"""``sparse2d reproduce``: the same spec and seed again, here and now."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from suite.cli.compare import REFUSED, Allow, allowances, comparison_body
from suite.cli.documents import run_body
from suite.cli.failures import BAD_INPUT, RUN_FAILED, relative
from suite.cli.options import Runs
from suite.cli.progress import shown
from suite.cli.run import show_failure
from suite.cli.streams import messages
from suite.cli.tables import show_comparison, show_environment_differences
from suite.cli.verb import Result, verb
from suite.compare import Comparison, MetricComparison
from suite.compare import compare as compare_records
from suite.environment import differences
from suite.metrics import METRICS
from suite.session import Outcome, open_launcher, run_one
from suite.store import RECORD, load

NOT_REPRODUCED = 1


@verb("reproduce")
def reproduce(
    record: Annotated[str, typer.Argument(metavar="RUN", help="Folder, record.json or id of a run.")],
    allow: Allow = "",
    runs: Runs = Path("runs"),
) -> Result:
    """Run the spec of a record again, with its seed, and compare.

    Exit code 1 if it was not reproduced: the verdict is worse, or a deterministic metric (bytes, calls,
    parameter bytes, quality) came out otherwise, be it better. Exit code 2 if the two cannot be compared, for
    example on another stack (--allow stack compares them all the same); the new record is kept.

    \b
    Examples:
      sparse2d reproduce 20260131T101500Z-3fa1c2
      sparse2d reproduce colleague/record.json --allow stack --json
    """
    allowed = allowances(allow)
    original = load(record, runs)
    run = original.run.model_copy(update={"checkpoint": None})  # those of the original stay
    console = messages()
    with shown([original.run], console) as report:
        again, path = run_one(run, runs, open_launcher(original.run.launcher), partial(report, 0))
    outcome = Outcome(original.run, again, path, again.error)
    comparison = compare_records([original], [again], allowed)
    environment = differences(original.environment, again.environment)

    def show(out: Console) -> None:
        show_environment_differences(environment, out)
        if comparison.verdict != "did_not_run":
            show_comparison(comparison, out)
            out.print(finding(comparison), markup=False, soft_wrap=True)
        if outcome.error is not None:
            show_failure(outcome, console)
        out.print(f"Record: {relative(path / RECORD)}", soft_wrap=True)

    body = {
        "original": original.run_id,
        "run": run_body(original.run, again, path),
        "environment_differences": [difference.model_dump(mode="json") for difference in environment],
        **comparison_body(comparison),
    }
    code = RUN_FAILED if again.status != "complete" else _exit_code(comparison)
    return Result(body, show, exit_code=code, flags=again.environment.flags)


def finding(comparison: Comparison) -> str:
    """Whether the outcome is the same, in one sentence."""
    if comparison.verdict in REFUSED:
        return "Not reproduced: the two cannot be compared."
    if changed := comparison.deterministic_changes():
        return f"Not reproduced: {_names(changed)} came out otherwise."
    exact = [row for row in comparison.metrics if METRICS[row.name].deterministic]
    noisy = [row for row in comparison.metrics if not METRICS[row.name].deterministic]
    if worse := [row for row in noisy if row.verdict == "worse"]:
        return f"Not reproduced: worse beyond noise in {_names(worse)}."
    if undecided := [row for row in exact if row.verdict != "equivalent"]:
        return f"Not decided: {_names(undecided)} cannot be compared to the last bit here."
    open_ = [row for row in noisy if row.verdict == "inconclusive"]
    rest = f"; undecided, for more launches to tell: {_names(open_)}" if open_ else ""
    return f"Reproduced: all {len(exact)} deterministic metrics are equal to the last bit{rest}."


def _names(rows: Sequence[MetricComparison]) -> str:
    return ", ".join(row.name for row in rows)


def _exit_code(comparison: Comparison) -> int:
    if comparison.verdict in REFUSED:
        return BAD_INPUT
    if comparison.verdict == "worse" or comparison.deterministic_changes():
        return NOT_REPRODUCED
    return 0
