"""``sparse2d compare``: two runs or two sets of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from suite import compare as comparing
from suite.cli.failures import BAD_INPUT
from suite.cli.options import Runs
from suite.cli.tables import show_comparison
from suite.cli.verb import Result, verb
from suite.errors import ConfigError
from suite.statistics import Verdict
from suite.store import load

#: Verdicts that mean that nothing was compared.
REFUSED: tuple[Verdict, ...] = ("incomparable", "did_not_run")

Allow = Annotated[
    str,
    typer.Option(
        metavar="WHAT[,WHAT...]",
        help=f"Compare although these differ: {', '.join(comparing.ALLOWANCES)}.",
    ),
]


@verb("compare")
def compare(
    before: Annotated[
        str, typer.Argument(metavar="RUN[,RUN...]", help="Folder, record.json or id of a run.")
    ],
    after: Annotated[str, typer.Argument(metavar="RUN[,RUN...]", help="The run or runs compared with it.")],
    allow: Allow = "",
    runs: Runs = Path("runs"),
) -> Result:
    """Compare two runs, or two sets of runs of one configuration each, metric by metric.

    Implementation, layout and optimizer may differ and are named. Another workload, device, stack or data is
    refused (verdict incomparable, exit code 2) unless allowed. A noisy metric needs several launches a
    side; the quality of two ways of training needs several runs a side, with the same seeds. Whatever the
    verdict, a comparison that could be made ends with exit code 0.

    \b
    Examples:
      sparse2d compare 3fa1c2 9b04de
      sparse2d compare 20260131T101500Z-3fa1c2 colleague/record.json --json
      sparse2d compare seed0,seed1,seed2 other0,other1,other2
    """
    allowed = allowances(allow)
    one, other = ([load(name, runs) for name in side.split(",")] for side in (before, after))
    comparison = comparing.compare(one, other, allowed)
    return Result(
        comparison_body(comparison) | {"before": before.split(","), "after": after.split(",")},
        lambda console: show_comparison(comparison, console),
        exit_code=BAD_INPUT if comparison.verdict in REFUSED else 0,
    )


def allowances(text: str) -> list[comparing.Allowance]:
    """``stack,spec`` as words.

    Raises:
        ConfigError: a word that allows nothing.
    """
    known = {str(word): word for word in comparing.ALLOWANCES}
    for word in filter(None, text.split(",")):
        if word not in known:
            raise ConfigError(
                "allow",
                word,
                "this cannot be allowed.",
                f"Use some of {list(get_args(comparing.Allowance))}.",
            )
    return [known[word] for word in filter(None, text.split(","))]


def comparison_body(comparison: comparing.Comparison) -> dict[str, Any]:
    """The document of a comparison; with an error where nothing was compared."""
    body = comparison.model_dump(mode="json")
    body["parts"] = {
        "regression": {"verdict": comparison.verdict},
        "scaling": {"verdict": None},
        "parity": {"verdict": None},
    }
    if comparison.verdict in REFUSED:
        body["error"] = {
            "kind": comparison.verdict,
            "field": None,
            "value": None,
            "message": comparison.reason,
            "remedy": "Compare runs of the same workload, device, stack and data that finished a launch.",
        }
    return body
