"""One launch feeds all metrics of a configuration.

asv runs a process for each metric and parameter. The first that needs a configuration runs it by
``sparse2d run --json`` and keeps what came out (``records``); the others of the same call of asv read that.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import suite
from suite import store
from suite.catalog import load_workload
from suite.environment import git_state, utc_now
from suite.errors import ConfigError
from suite.launchers.linux import die_with_parent
from suite.metrics import METRICS

from . import records, sizes
from .records import ROOT, Measured
from .sizes import Configuration

#: What ``sparse2d`` says while it runs, of all configurations of the call: asv itself shows nothing of it.
PROGRESS = ROOT / ".asv" / "progress.log"
#: The checkout that is measured. It need not be ours: asv runs today's benchmarks on older commits.
SUITE = Path(suite.__file__).resolve().parents[1]
#: Seconds for a run that is over its limit to keep its record.
GRACE_S = 30.0


@dataclass(frozen=True)
class Session:
    """One commit in one call of asv.

    Attributes:
        id: unlike that of any other call.
        commit, dirty: of the checkout that is run, which need not be ours.
        versions: under which version asv keeps the figures of each workload: it asks once a call.
    """

    id: str
    commit: str
    dirty: bool
    versions: Mapping[str, str] = field(default_factory=dict)

    def check_version(self, workload: str, version: str) -> None:
        """Refuses figures that asv would keep as those of another workload.

        Raises:
            ConfigurationFailed: at this commit the workload is another one than where asv began.
        """
        if (kept := self.versions.get(workload, version)) != version:
            raise ConfigurationFailed(
                f"{workload} is another workload at commit {self.commit[:8]} (spec {version}) than where asv "
                f"asked (spec {kept}). Run that commit in a call of its own, so that a new series begins."
            )


class ConfigurationFailed(Exception):
    """A configuration has no figures; the message says why."""


def open_session() -> Session:
    """What a call of asv begins with.

    Raises:
        ConfigError: the suite that is run is in no git checkout.
    """
    commit, dirty = git_state(SUITE)
    if commit is None:
        raise ConfigError(
            "commit",
            str(SUITE),
            "this is no git checkout, and asv keeps results by commit.",
            "Clone the repository, or run `sparse2d sweep`, which needs no commit.",
        )
    PROGRESS.parent.mkdir(exist_ok=True)
    PROGRESS.write_text("")
    return Session(f"{utc_now()}-{secrets.token_hex(3)}", commit, bool(dirty), _versions())


def _versions() -> dict[str, str]:
    """By the workload's class, as asv has them in its ``benchmarks.json``."""
    try:
        known: dict[str, Any] = json.loads((ROOT / ".asv" / "results" / "benchmarks.json").read_text())
    except FileNotFoundError:
        return {}
    found = (one for one in known.values() if isinstance(one, dict))
    return {one["name"].split(".")[-2]: one["version"] for one in found}


def measured(session: Session, configuration: Configuration) -> Measured:
    """A configuration as this session measured it; it is run where no other metric has needed it before.

    Raises:
        ConfigurationFailed: it failed, now or for the first metric that needed it.
    """
    configuration = configuration.as_launched()
    found = records.read(session.commit).get(str(configuration))
    if found is None or found.session != session.id:
        found = _run(session, configuration)
        records.keep(session.commit, str(configuration), found)
    if found.error is not None:
        raise ConfigurationFailed(f"{configuration}: {found.error}")
    return found


def _run(session: Session, configuration: Configuration) -> Measured:
    size, layout = sizes.chosen(), configuration.layout
    document, why_not = _called(
        [*configuration.arguments(), "--launches", str(size.launches), "--runs", str(ROOT / "runs")],
        size.limit_s,
    )
    record = None if document.get("record") is None else (Path.cwd() / document["record"]).resolve()
    metrics: dict[str, list[float]] = {}
    flags: tuple[str, ...] = ()
    if record is not None:
        content = store.read(record)
        metrics = {name: metric.values(content) for name, metric in METRICS.items()}
        flags = content.environment.flags
    return Measured(
        session=session.id,
        created=utc_now(),
        workload=configuration.workload,
        spec_hash=load_workload(configuration.workload).spec_hash,
        scaling=configuration.scaling,
        implementation=layout.implementation,
        world_size=configuration.world_size,
        replica_groups=layout.replica_groups,
        placement=layout.placement,
        sync_interval=layout.sync_interval,
        dirty=session.dirty,
        record=None if record is None else os.path.relpath(record, ROOT),
        flags=flags,
        error=why_not,
        metrics={name: values for name, values in metrics.items() if values},
    )


def _called(arguments: list[str], limit_s: float) -> tuple[dict[str, Any], str | None]:
    """The JSON document of ``sparse2d run``, and in one line why it failed, if it did."""
    command = [sys.executable, "-m", "suite.cli.main", "run", *arguments, *sizes.options(), "--json"]
    over_time = f"it took longer than {limit_s:.0f} s, the limit of its size, and was ended."
    with PROGRESS.open("a") as progress:
        print("$ sparse2d run", *command[4:], file=progress, flush=True)
        # Where asv is killed, or kills this process, the ranks go too.
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=progress,
            text=True,
            env=os.environ | {"PYTHONPATH": str(SUITE)},
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
        try:
            out, _ = child.communicate(timeout=limit_s)
            in_time = True
        except subprocess.TimeoutExpired:
            in_time = False
            child.send_signal(signal.SIGINT)
            try:
                out, _ = child.communicate(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                out, _ = child.communicate()
    try:
        document: dict[str, Any] = json.loads(out)
    except ValueError:
        said = PROGRESS.read_text()[-2000:]
        return {}, over_time if not in_time else f"it ended with {child.returncode}: {said}"
    if not in_time:
        return document, over_time
    return document, _in_words(document) if child.returncode else None


def _in_words(document: dict[str, Any]) -> str:
    error = document["error"] or {}
    rank = "" if error.get("rank") is None else f" on rank {error['rank']}"
    about = "" if error.get("field") is None else f" {error['field']} = {error.get('value')!r}:"
    parts = [f"{error.get('kind')}{rank}:{about} {error.get('message')}", error.get("remedy")]
    parts += [f"{name}: {path}" for name in ("log",) if (path := error.get(name))]
    return " ".join(part for part in parts if part)
