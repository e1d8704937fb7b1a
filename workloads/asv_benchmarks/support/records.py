"""Which run record each result of asv came from: ``.asv/records/<commit>.json``, beside asv's own results.

asv keeps one number a metric. This file keeps, for each configuration of a commit, the path of the record the
numbers were computed from, and what the record's environment was flagged with; or why there is none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from suite.files import write_whole

#: The checkout that the benchmarks are read from, which ``asv.conf.json`` lies in.
ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".asv" / "records"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Measured:
    """One configuration as it was measured last at a commit.

    Attributes:
        session: the call of asv that measured it.
        created: ISO 8601, UTC.
        workload, spec_hash, scaling, implementation, world_size, replica_groups, placement, sync_interval:
            what was run.
        dirty: the checkout had uncommitted changes, so the commit does not say what was measured.
        record: path of ``record.json`` from the root of the checkout; None where nothing was launched.
        flags: of the record's environment.
        error: why it failed; None where it did not.
        metrics: one value a launch, by the metric's name.
    """

    session: str
    created: str
    workload: str
    spec_hash: str
    scaling: str
    implementation: str
    world_size: int
    replica_groups: int
    placement: str
    sync_interval: int
    dirty: bool | None
    record: str | None = None
    flags: tuple[str, ...] = ()
    error: str | None = None
    metrics: Mapping[str, list[float]] = field(default_factory=dict)


def path_of(commit: str) -> Path:
    """Where the configurations of a commit are kept."""
    return FOLDER / f"{commit}.json"


def read(commit: str) -> dict[str, Measured]:
    """The configurations measured at a commit, by what they are; none where none was."""
    try:
        document: dict[str, Any] = json.loads(path_of(commit).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {
        name: Measured(**found | {"flags": tuple(found["flags"])})
        for name, found in document["configurations"].items()
    }


def keep(commit: str, name: str, measured: Measured) -> None:
    """Adds a configuration to those of its commit, in place of what was measured before."""
    configurations = {**read(commit), name: measured}
    FOLDER.mkdir(parents=True, exist_ok=True)
    document = {
        "schema_version": SCHEMA_VERSION,
        "commit": commit,
        "configurations": {name: asdict(found) for name, found in sorted(configurations.items())},
    }
    write_whole(path_of(commit), json.dumps(document, indent=1))
