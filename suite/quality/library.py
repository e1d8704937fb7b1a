"""Results of trainings on disk: one folder an experiment, one file a training, each written whole.

    runs/<workload>/<spec hash>/<UTC time>-<short id>-<verb>/
        environment.json
        options.json              what it was begun with
        trainings/<training hash>.json
        kept/<name>.json          what else took long
        verdict.json              when all are there; verdict-30-seeds.json where seeds were added

An experiment that was ended goes on in its own folder (``--resume``), and trains what is missing. Nothing is
taken from elsewhere: a result is believed only where the same stack made it, in an experiment that says so.
The options are those that it was begun with, so that a folder holds one design; seeds may be added.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suite.environment import STACK
from suite.errors import ConfigError, ErrorReport, RunFailed
from suite.files import write_whole
from suite.quality.spec import Training
from suite.record import EnvironmentRecord, QualityRecord
from suite.spec import Frozen, Model, WorkloadSpec

ENVIRONMENT = "environment.json"
OPTIONS = "options.json"
TRAININGS = "trainings"
KEPT = "kept"
#: The one option that may grow.
SEEDS = "seeds"

#: By option name, in full: what was left out has its default. ``None`` where there is none.
Options = Mapping[str, Any]


class Point(Frozen):
    """Quality after so many training samples."""

    samples: int
    quality: QualityRecord


class TrainingResult(Frozen):
    """What one training came to. ``emulated``: exact mathematics of M groups, no communication."""

    schema_version: Literal[1] = 1
    provenance: Literal["emulated"] = "emulated"
    training: Training
    curve: tuple[Point, ...]
    last_loss: float | None
    #: Where a learning rate that was tried is too high: what happened. There is no curve and no loss then.
    diverged: str | None = None

    @property
    def quality(self) -> QualityRecord:
        """After the last step of a training that did not diverge."""
        return self.curve[-1].quality


class Experiment:
    """An experiment's folder.

    Args:
        path: the folder.
        finished: what it has, by training hash.
        suffix: what the names of its verdict and plots end with. Empty unless seeds were added: the verdict
            that was there before them stays.
    """

    def __init__(self, path: Path, finished: dict[str, TrainingResult], suffix: str = "") -> None:
        self.path = path
        self.finished = finished
        self.suffix = suffix

    def save(self, result: TrainingResult) -> None:
        """Keeps one training.

        Raises:
            RunFailed: the disk is full or cannot be written; the others are untouched.
        """
        name = result.training.training_hash
        self._write(f"{TRAININGS}/{name}.json", result.model_dump_json(indent=1))
        self.finished[name] = result

    def keep(self, name: str, content: dict[str, Any]) -> None:
        """Keeps what else took long, under a name that says all it depends on.

        Raises:
            RunFailed: see ``save``.
        """
        with suppress(OSError):  # where the experiment itself is gone, writing says so
            (self.path / KEPT).mkdir(exist_ok=True)
        self._write(f"{KEPT}/{name}.json", json.dumps(content, indent=1, allow_nan=False))

    def kept(self, name: str) -> dict[str, Any] | None:
        """What an earlier call has kept under a name; None where nothing is.

        Raises:
            ConfigError: ``resume``: the file is damaged.
        """
        path = self.path / KEPT / f"{name}.json"
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise _damaged(path, str(error)) from error
        if not isinstance(content, dict):
            raise _damaged(path, "it holds no object")
        return content

    def conclude(self, verdict: dict[str, Any]) -> Path:
        """Writes the verdict; returns its path. One that is there and says otherwise stays, beside it.

        Raises:
            RunFailed: see ``save``.
        """
        text = json.dumps(verdict, indent=1, allow_nan=False)
        for number in itertools.count(1):
            name = f"verdict{self.suffix}{'' if number == 1 else f'-{number}'}.json"
            path = self.path / name
            try:
                if path.read_text(encoding="utf-8") == text + "\n":
                    return path
            except FileNotFoundError:
                self._write(name, text)
                return path
            except (OSError, ValueError):  # what is there is no verdict, and not ours to replace
                continue
        raise AssertionError("unreachable")

    def _write(self, name: str, text: str) -> None:
        try:
            write_whole(self.path / name, text + "\n")
        except OSError as error:
            raise RunFailed(
                ErrorReport(
                    kind="cannot_save",
                    field="runs",
                    value=str(self.path),
                    message=f"{name} could not be saved: {error.strerror}.",
                    remedy="Make room, or make the folder writable, and go on with the same command and "
                    f"--resume {self.path}: finished trainings are kept.",
                )
            ) from error


def new_experiment(
    runs_dir: Path, workload: WorkloadSpec, verb: str, environment: EnvironmentRecord, options: Options
) -> Experiment:
    """A new folder with its environment and options.

    Raises:
        ConfigError: ``runs`` cannot be written.
    """
    parent = runs_dir / workload.name / workload.spec_hash
    path = parent / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}-{verb}"
    try:
        (path / TRAININGS).mkdir(parents=True)
        write_whole(path / ENVIRONMENT, environment.model_dump_json(indent=1) + "\n")
        write_whole(path / OPTIONS, json.dumps(options, indent=1, allow_nan=False) + "\n")
    except OSError as error:
        shutil.rmtree(path, ignore_errors=True)  # a full disk may have taken the folder and not the files
        raise ConfigError(
            "runs",
            str(runs_dir),
            f"results cannot be written there: {error.strerror}.",
            "Name another folder with --runs, make room, or make this one writable.",
            kind="environment",
        ) from error
    return Experiment(path, {})


def open_experiment(path: Path, environment: EnvironmentRecord, options: Options) -> Experiment:
    """An experiment that was begun before.

    Raises:
        ConfigError: ``resume``: no such experiment, one of another stack, or a damaged file in it; or the
            option that it was not begun with.
    """
    before = _begun(path / ENVIRONMENT, EnvironmentRecord)
    for package in STACK:
        then, now = before.versions.get(package), environment.versions.get(package)
        if then != now:
            raise ConfigError(
                "resume",
                str(path),
                f"it was begun with {package} {then}, and this is {now}.",
                "Go on with the same versions, or begin anew.",
            )
    suffix = _added_seeds(_begun(path / OPTIONS, _Options).model_dump(), options)
    trainings = path / TRAININGS
    try:
        trainings.mkdir(exist_ok=True)
        if not all(os.access(folder, os.W_OK) for folder in (path, trainings)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ConfigError(
            "resume",
            str(path),
            f"results cannot be written there: {error.strerror}.",
            "Make the folder writable, or begin anew.",
            kind="environment",
        ) from error
    return Experiment(path, dict(map(_finished, sorted(trainings.glob("[!.]*.json")))), suffix)


def _finished(file: Path) -> tuple[str, TrainingResult]:
    """A training's hash and its result, which is whole and lies under its own name."""
    result = _read(file, TrainingResult)
    training = result.training
    if file.stem != training.training_hash:
        raise _damaged(file, f"it holds the training {training.training_hash}")
    scored = tuple(step * training.global_batch for step in training.scored_after)
    if tuple(point.samples for point in result.curve) != (() if result.diverged else scored):
        raise _damaged(file, "its learning curve is not whole")
    return training.training_hash, result


def _added_seeds(begun: Options, options: Options) -> str:
    """The suffix of what is concluded with these options, which are those of the beginning but for seeds."""
    for name in dict.fromkeys((*begun, *options)):
        then, now = begun.get(name), options.get(name)
        more = name == SEEDS and isinstance(then, int) and isinstance(now, int) and now > then
        if then != now and not more:
            raise ConfigError(
                name,
                now,
                f"the experiment to go on with was begun with {then}.",
                "Give the options that it was begun with (more --seeds may be asked for), or begin anew "
                "without --resume.",
            )
    return "" if begun.get(SEEDS) == options.get(SEEDS) else f"-{options[SEEDS]}-seeds"


class _Options(BaseModel):
    """``options.json``."""

    model_config = ConfigDict(extra="allow")
    verb: str
    workload: str
    seeds: Annotated[int, Field(strict=True, ge=1)]


def _begun(path: Path, model: type[Model]) -> Model:
    """What tells how an experiment was begun, which nothing can make again."""
    try:
        return _read(path, model)
    except ConfigError as error:
        report = error.report
        raise ConfigError(
            "resume",
            report.value,
            report.message,
            "Give the folder that parity or ablate of this version printed; where it is that, begin anew "
            "without --resume: what it was begun with cannot be known.",
        ) from error


def _read(path: Path, model: type[Model]) -> Model:
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            "resume",
            str(path),
            f"it cannot be read: {error.strerror}.",
            "Give the folder that parity or ablate printed.",
        ) from error
    except ValidationError as error:
        raise _damaged(path, error.errors()[0]["msg"]) from error


def _damaged(path: Path, what: str) -> ConfigError:
    return ConfigError(
        "resume",
        str(path),
        f"it is damaged or foreign: {what}.",
        "Delete this file and resume: it is made again.",
    )
