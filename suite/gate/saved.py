"""Two sets of saved records as the two sides of a gate."""

from __future__ import annotations

from pathlib import Path

from suite.compare import setting_differences
from suite.errors import ConfigError, ErrorReport
from suite.gate.regression import Pair, Side
from suite.record import RunRecord
from suite.store import RECORD, read

#: Settings in which the records of one configuration may differ.
_FREE = ("seed", "launches", "trace")


def pairs_of(base: Path, head: Path) -> list[Pair]:
    """Records of two folders, configuration by configuration; one that only one side has is a pair, too.

    Records belong to one configuration when workload name, implementation, layout and other settings are
    the same, whatever their seeds. The workload's hash may differ: that is for the verdict to say.

    Raises:
        ConfigError: a folder without records, a record that is not valid, or a run that is in both.
    """
    sides = {"base_runs": configurations(base, "base_runs"), "head_runs": configurations(head, "head_runs")}
    ids = [{record.run_id for side in of.values() for record in side.records} for of in sides.values()]
    if both := sorted(ids[0] & ids[1]):
        raise ConfigError(
            "head_runs",
            str(head),
            f"{len(both)} of its runs are in base's folder, too, such as {both[0]}.",
            "Name two folders with runs of their own.",
        )
    names = list(dict.fromkeys(name for side in sides.values() for name in side))
    nothing = Side()
    return [
        Pair(name, sides["base_runs"].get(name, nothing), sides["head_runs"].get(name, nothing))
        for name in names
    ]


def configurations(folder: Path, field: str) -> dict[str, Side]:
    """The records below a folder, by the name of their configuration; ``field`` names the folder in errors.

    Raises:
        ConfigError: none, one that is not valid, or two configurations of one name.
    """
    if not folder.is_dir():
        raise ConfigError(field, str(folder), "there is no such folder.", "Name a folder with records.")
    files = sorted(folder.glob(f"**/{RECORD}"))
    if not files:
        raise ConfigError(
            field,
            str(folder),
            f"there is no {RECORD} in it: no baseline yet."
            if field == "base_runs"
            else f"no {RECORD} in it.",
            "Run `sparse2d run` or `sweep` with --runs there first."
            if field == "head_runs"
            else "Run base with --runs there first, or let the gate run both sides with --base.",
        )
    groups: list[list[RunRecord]] = []
    for record in map(read, files):
        same = next((group for group in groups if _is_one_configuration(group[0], record)), None)
        if same is None:
            groups.append([record])
        else:
            same.append(record)
    named: dict[str, Side] = {}
    for group in groups:
        name = _name(group[0])
        if name in named:
            raise ConfigError(
                field,
                str(folder),
                f"two configurations are both {name}, and differ in "
                f"{', '.join(d.field for d in setting_differences(group[0], named[name].records[0]))}.",
                "Keep them in folders of their own, and gate one after the other.",
            )
        failures = [launch.error for r in group for launch in r.launches if launch.error is not None]
        finished = [r for r in group if any(launch.status == "complete" for launch in r.launches)]
        if not finished and not failures:
            failures = [ErrorReport(kind="interrupted", message="it was ended before a launch finished.")]
        named[name] = Side(tuple(finished), tuple(failures))
    return named


def _is_one_configuration(one: RunRecord, other: RunRecord) -> bool:
    return one.spec_hash == other.spec_hash and not [
        d for d in setting_differences(one, other) if d.field not in _FREE and not d.field.startswith("code.")
    ]


def _name(record: RunRecord) -> str:
    run = record.run
    layout = run.layout
    groups = "" if layout.replica_groups == 1 else f" M={layout.replica_groups}"
    weak = "" if run.scaling == "strong" else " weak"
    interval = "" if run.sync_interval == 1 else f" k={run.sync_interval}"
    return f"{run.workload.name} {run.implementation} T={layout.world_size}{groups}{interval}{weak}"
