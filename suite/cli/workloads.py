"""``sparse2d workloads``: what can be run; ``workloads show NAME``: one of them in full."""

from __future__ import annotations

from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from suite.catalog import each_workload, load_workload
from suite.cli.failures import located, show_error
from suite.cli.run import Workload
from suite.cli.streams import messages
from suite.cli.tables import ABSENT, number, size, table
from suite.cli.verb import Result, verb
from suite.errors import ConfigError, ErrorReport
from suite.spec import WorkloadSpec

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@app.callback()
@verb("workloads")
def workloads(context: typer.Context) -> Result | None:
    """List the workloads, or show one in full. One whose file is wrong is named, and keeps out no other.

    \b
    Examples:
      sparse2d workloads
      sparse2d workloads show movielens_100k
    """
    if context.invoked_subcommand is not None:
        return None
    found = dict(each_workload())
    specs = [spec for spec in found.values() if isinstance(spec, WorkloadSpec)]
    wrong = {name: error.report for name, error in found.items() if isinstance(error, ConfigError)}

    def show_all(console: Console) -> None:
        _list(specs, console)
        _warn(wrong, messages())

    errors = {name: located(report, None) for name, report in wrong.items()}
    return Result({"workloads": [_line(spec) for spec in specs], "errors": errors}, show_all)


@app.command("show")
@verb("workloads")
def show(workload: Workload) -> Result:
    """Print a workload's full spec: model, tables, data, batch, defaults.

    \b
    Examples:
      sparse2d workloads show smoke
      sparse2d workloads show my_tables.toml --json
    """
    spec = load_workload(workload)
    body = _line(spec) | {"spec": spec.model_dump(mode="json")}
    return Result({"workload": body}, lambda console: _show(spec, console))


def _line(spec: WorkloadSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "spec_hash": spec.spec_hash,
        "tables": len(spec.tables),
        "features": len(spec.features),
        "rows": sum(t.rows for t in spec.tables),
        "embedding_bytes": _bytes(spec),
        "global_batch": spec.batch.global_size,
    }


def _bytes(spec: WorkloadSpec) -> int:
    return sum(4 * t.rows * t.dim for t in spec.tables)


def _list(specs: list[WorkloadSpec], console: Console) -> None:
    made = table("name", "what", "tables", "rows", "size", left=2)
    for spec in specs:
        made.add_row(
            spec.name,
            escape(spec.description),
            str(len(spec.tables)),
            number(sum(t.rows for t in spec.tables)),
            size(_bytes(spec)),
        )
    console.print(made)


def _warn(wrong: dict[str, ErrorReport], console: Console) -> None:
    for name, report in wrong.items():
        console.print(f"Left out: {name}", markup=False)
        show_error(report, console)


def _show(spec: WorkloadSpec, console: Console) -> None:
    console.print(f"[bold]{spec.name}[/bold]  spec {spec.spec_hash}", soft_wrap=True)
    if spec.description:
        console.print(spec.description, markup=False)
    made = table("table", "features", "rows", "dim", "pooling", "ids per sample", left=2)
    for t in spec.tables:
        features = ", ".join(t.features)
        made.add_row(t.name, features, number(t.rows), str(t.dim), t.pooling, number(t.pooling_factor))
    console.print(made)
    for section in ("model", "data", "batch", "defaults", "parity"):
        for name, value in _flat(section, getattr(spec, section).model_dump(mode="json")):
            console.print(f"{name} = {ABSENT if value is None else value}", markup=False, soft_wrap=True)


def _flat(prefix: str, content: Any) -> list[tuple[str, Any]]:
    if not isinstance(content, dict):
        return [(prefix, content)]
    return [pair for name, value in content.items() for pair in _flat(f"{prefix}.{name}", value)]
