"""One launch feeds all metrics of a configuration.

asv runs a process for each metric and parameter. The first that needs a configuration runs it by
``sparse2d run --json``, or by ``sparse2d sweep --json`` with those that belong to it, and keeps what came out
(``records``); the others of the same call of asv read that.
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
_OVER_TIME = "it took longer than"


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
    found = _found(session, configuration)
    if found is None:
        _run(session, sizes.chosen().beside(configuration))
        found = _found(session, configuration)
    if found is None:
        _run(session, [configuration])
        found = _found(session, configuration)
    assert found is not None
    if found.error is not None:
        raise ConfigurationFailed(f"{configuration}: {found.error}")
    return found


def _found(session: Session, configuration: Configuration) -> Measured | None:
    found = records.read(session.commit).get(str(configuration))
    return found if found is not None and found.session == session.id else None


def _run(session: Session, together: list[Configuration]) -> None:
    """Keeps what became of configurations."""
    size = sizes.chosen()
    arguments = together[0].arguments() if len(together) == 1 else sizes.sweep_arguments(together)
    further = sizes.options(max(c.world_size for c in together))
    command = [*arguments, "--launches", str(size.launches), *further]
    document, why_not = _called(command, size.limit_s * len(together))
    if len(together) == 1:
        outcomes = [(together[0], document, why_not)]
    elif "runs" in document:
        runs = {(r["implementation"], r["world_size"], r["replica_groups"]): r for r in document["runs"]}
        swept = [
            (c, runs.get((c.layout.implementation, c.world_size, c.layout.replica_groups))) for c in together
        ]
        outcomes = [(c, r, _in_words(r) if r["error"] else None) for c, r in swept if r is not None]
    elif why_not is not None and why_not.startswith(_OVER_TIME):
        outcomes = [(c, {}, why_not) for c in together]
    else:  # one of them was refused, and the others with it
        for one in together:
            _run(session, [one])
        return
    for configuration, outcome, error in outcomes:
        records.keep(session.commit, str(configuration), _measured(session, configuration, outcome, error))


def _measured(
    session: Session, configuration: Configuration, document: Mapping[str, Any], error: str | None
) -> Measured:
    layout = configuration.layout
    record = None if document.get("record") is None else ROOT / _from_root(document["record"])
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
        record=None if record is None else _from_root(document["record"]),
        flags=flags,
        error=error,
        metrics={name: values for name, values in metrics.items() if values},
    )


def _called(arguments: list[str], limit_s: float) -> tuple[dict[str, Any], str | None]:
    """The JSON document of a command, and in one line why it failed, if it did."""
    command = [sys.executable, "-m", "suite.cli.main", *arguments, "--json"]
    over_time = f"{_OVER_TIME} {limit_s:.0f} s, the limit of its size, and was ended."
    with PROGRESS.open("a") as progress:
        print("$ sparse2d", *command[3:], file=progress, flush=True)
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=progress,
            text=True,
            cwd=ROOT,  # the paths that it shows are from there, and asv's own folder is soon deleted
            env=os.environ | {"PYTHONPATH": str(SUITE)},
            preexec_fn=partial(_interrupted_with, os.getpid()),
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


def _interrupted_with(parent: int) -> None:
    """In a new process: has the kernel send it Ctrl-C when its parent ends, however that ends.

    So a run keeps its record, ends its ranks and cancels its job also where asv is killed, or kills the
    benchmark's process.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what a shell starts in the background has it ignored
    die_with_parent(parent, signal.SIGINT)


def _in_words(document: Mapping[str, Any]) -> str:
    error = document.get("error") or {}
    rank = "" if error.get("rank") is None else f" on rank {error['rank']}"
    about = "" if error.get("field") is None else f" {error['field']} = {error.get('value')!r}:"
    log = None if error.get("log") is None else f"Log: {_from_root(error['log'])}"
    parts = (f"{error.get('kind')}{rank}:{about} {error.get('message')}", error.get("remedy"), log)
    return " ".join(part for part in parts if part)


def _from_root(path: str) -> str:
    """A path of a document, which is from the root where the record is in it."""
    return os.path.relpath(ROOT / path, ROOT)
