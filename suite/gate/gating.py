"""A whole gate: what is asked for, the two sides, the parts one after the other."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suite.environment import available_cores
from suite.errors import ConfigError, ErrorReport
from suite.gate import parity, scaling
from suite.gate.expected import Expected, expected_of, judge_expected, judge_expected_parity, load_expected
from suite.gate.findings import Finding, Gate, Part, PartName, make_gate, make_part
from suite.gate.measuring import Measured, Tell, interleaved_on, measure, refuse_unlike, trace_again
from suite.gate.plan import Configuration, GatePlan, ParityPlan, ScalingPlan
from suite.gate.regression import Side, judge, notes
from suite.gate.repository import Commit, refuse_dirty, resolve, top_of, worktrees
from suite.gate.saved import pairs_of
from suite.gate.side import Place, failure
from suite.record import RunRecord

HEAD = "HEAD"


@dataclass(frozen=True)
class Request:
    """What is asked for: two commits of ``repo``; or saved records; or ``repo`` against expected values.

    Attributes:
        plan: what is run and how strictly it is judged.
        parts: those of the plan's parts that are run.
        repo: a folder of the checkout.
        base, head: revisions.
        base_runs, head_runs: folders of saved records in place of running.
        expected: a file of expected values in place of a base; the checkout is run as it lies there.
        setup: a command run in each side's checkout first.
        python: the interpreter of a side's environment, relative to its checkout; None: this one.
        implementation: what 2D runs, of the repository's own.
        allow_stack: the sides may be of unlike stacks.
        accepted: names of metrics whose change is claimed.
        extra: further options of every ``sparse2d run``.
        runs: the gate's own folder is made in it.
    """

    plan: GatePlan
    parts: tuple[PartName, ...]
    repo: Path
    base: str
    head: str | None
    base_runs: Path | None
    head_runs: Path | None
    expected: Path | None
    setup: str | None
    python: str | None
    implementation: str | None
    allow_stack: bool
    accepted: tuple[str, ...]
    extra: tuple[str, ...]
    runs: Path


@dataclass(frozen=True)
class Outcome:
    """The verdict, which commits it is about, the gate's folder, and what was measured where it was run."""

    gate: Gate
    commits: dict[str, Commit]
    folder: Path | None
    measured: Measured | None = None


def run_gate(request: Request, tell: Tell) -> Outcome:
    """Runs what is asked for, and judges it.

    Raises:
        ConfigError: whatever is wrong with the request, before anything is launched; and sides of unlike
            machines or stacks, after the first launches have shown them.
    """
    if request.base_runs is not None and request.head_runs is not None:
        return Outcome(_saved(request, request.base_runs, request.head_runs), {}, None)
    if request.expected is not None:
        return _against_expected(request, load_expected(request.expected), tell)
    repo = top_of(request.repo)
    commits = {
        "base": resolve(repo, "base", request.base),
        "head": resolve(repo, "head", request.head or HEAD),
    }
    if request.head is None:
        refuse_dirty(repo)
    folder = new_folder(request.runs)
    with worktrees(repo, **commits) as checkouts:
        base, head = (_place(request, name, checkouts[name], folder, tell) for name in ("base", "head"))
        parts: list[Part] = []
        measured = None
        if "regression" in request.parts:
            plan = request.plan.regression
            assert plan is not None
            measured = measure(
                base,
                head,
                _configurations(request),
                plan,
                request.extra,
                folder,
                tell,
                request.accepted,
                request.allow_stack,
            )
            traces = trace_again(
                base, head, _configurations(request), measured.rows, request.extra, folder, tell
            )
            parts.append(make_part("regression", measured.rows, plan.policy, [*measured.notes, *traces]))
        parts += _others(request, head, base, folder, tell)
    return Outcome(make_gate(parts), commits, folder, measured)


def current_values(request: Request, tell: Tell) -> Expected:
    """What the checkout as it lies there comes to, to be kept as expected values.

    Raises:
        ConfigError: a configuration does not run.
    """
    folder = new_folder(request.runs)
    head = _place(request, "head", request.repo, folder, tell)
    plan = request.plan.parity
    virtual = None if plan is None or plan.world_size is not None else _lab(plan, head, folder, tell)
    return expected_of(_once(request, head, folder, tell), virtual)


def new_folder(runs: Path) -> Path:
    """A new folder of a gate below ``runs``.

    Raises:
        ConfigError: it cannot be made.
    """
    folder = runs.resolve() / "gate" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True)
        probe = folder / ".probe"
        probe.write_bytes(bytes(1 << 16))  # a full disk takes a folder, and no file
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            "runs", str(runs), f"it cannot be written: {error.strerror}.", "Name another folder with --runs."
        ) from error
    return folder


def _against_expected(request: Request, expected: Expected, tell: Tell) -> Outcome:
    folder = new_folder(request.runs)
    head = _place(request, "head", request.repo, folder, tell)
    parts = []
    if "regression" in request.parts:
        plan = request.plan.expected
        sides = _once(request, head, folder, tell)
        parts.append(make_part("regression", judge_expected(expected, sides, plan), plan.policy))
    if "scaling" in request.parts:
        assert request.plan.scaling is not None
        parts.append(_scaling(request, request.plan.scaling, head, folder, tell))
    if "parity" in request.parts:
        assert request.plan.parity is not None
        parts.append(_expected_parity(request, request.plan.parity, expected, head, folder, tell))
    return Outcome(make_gate(parts), {}, folder)


def _expected_parity(
    request: Request, plan: ParityPlan, expected: Expected, head: Place, folder: Path, tell: Tell
) -> Part:
    if plan.world_size is not None:
        return make_part("parity", _real_parity(request, plan, head, None, folder, tell), plan.policy)
    document = _lab(plan, head, folder, tell)
    rows = parity.judge_virtual(plan, document, None)
    if not isinstance(document, ErrorReport):
        rows += judge_expected_parity(expected, document, request.plan.expected)
    return make_part("parity", rows, plan.policy)


def _once(request: Request, head: Place, folder: Path, tell: Tell) -> dict[str, Side]:
    configurations = _configurations(request)
    return interleaved_on(head, configurations, 1, request.extra, folder / "logs", tell)


def _saved(request: Request, base: Path, head: Path) -> Gate:
    pairs = pairs_of(base, head)
    parts = []
    if "regression" in request.parts:
        plan = request.plan.regression
        assert plan is not None
        refuse_unlike(pairs, request.allow_stack)
        rows, _ = judge(pairs, plan, request.accepted, request.allow_stack, may_rerun=False)
        parts.append(make_part("regression", rows, plan.policy, notes(pairs)))
    if "scaling" in request.parts:
        thresholds = request.plan.scaling
        assert thresholds is not None
        found = {
            _point(record).name: pair.head
            for pair in pairs
            for record in pair.head.records[:1]
            if record.run.workload.name == thresholds.workload
        }
        rows = scaling.judge(thresholds, found, {})
        parts.append(make_part("scaling", rows, thresholds.policy))
    if "parity" in request.parts:
        assert request.plan.parity is not None
        parts.append(
            make_part("parity", [], request.plan.parity.policy, ["saved records hold no paired trainings"])
        )
    return make_gate(parts)


def _point(record: RunRecord) -> scaling.Point:
    layout = record.run.layout
    return scaling.Point(record.run.scaling, layout.world_size, layout.replica_groups)


def _others(request: Request, head: Place, base: Place | None, folder: Path, tell: Tell) -> Iterator[Part]:
    """Scaling and parity, where they are asked for."""
    if "scaling" in request.parts:
        assert request.plan.scaling is not None
        yield _scaling(request, request.plan.scaling, head, folder, tell)
    if "parity" in request.parts:
        assert request.plan.parity is not None
        plan = request.plan.parity
        judged = _real_parity if plan.world_size is not None else _virtual_parity
        yield make_part("parity", judged(request, plan, head, base, folder, tell), plan.policy)


def _scaling(request: Request, plan: ScalingPlan, head: Place, folder: Path, tell: Tell) -> Part:
    options = (*plan.options, *request.extra)
    here = _option(options, "--launcher", "local") == "local" and _option(options, "--device", "cpu") == "cpu"
    cores = available_cores()
    not_run = {
        point.name: why for point in scaling.points(plan) if here and (why := scaling.too_many(point, cores))
    }

    def run(points: Sequence[scaling.Point], logs: str) -> dict[str, Side]:
        configurations = [
            Configuration(
                name=point.name,
                workload=plan.workload,
                world_size=point.world_size,
                replica_groups=point.replica_groups,
                implementation=scaling.implementation_of(point, request.implementation),
                options=(*plan.options, "--scaling", point.scaling, "--profile-steps", "0"),
            )
            for point in points
        ]
        return interleaved_on(head, configurations, plan.launches, request.extra, folder / logs, tell)

    points = [point for point in scaling.points(plan) if point.name not in not_run]
    sides = run(points, "logs/scaling")
    rows = scaling.judge(plan, sides, not_run)
    if again := scaling.suspicious(rows, plan):
        tell("below its threshold: " + ", ".join(point.name for point in again) + "; measured again")
        rows = scaling.judge(plan, sides | run(again, "logs/scaling-again"), not_run)
    return make_part("scaling", rows, plan.policy)


def _virtual_parity(
    _request: Request, plan: ParityPlan, head: Place, base: Place | None, folder: Path, tell: Tell
) -> list[Finding]:
    documents = {place.name: _lab(plan, place, folder, tell) for place in (base, head) if place is not None}
    return parity.judge_virtual(plan, documents["head"], documents.get("base"))


def _lab(plan: ParityPlan, place: Place, folder: Path, tell: Tell) -> dict[str, Any] | ErrorReport:
    """The document of ``sparse2d parity`` of one side, or why there is none."""
    tell(f"parity of {place.name}: {plan.workload}, {plan.seeds} seeds")
    logs = folder / "logs" / f"parity-{place.name}"
    code, document = place.sparse2d([*parity.virtual_arguments(plan), "--runs", str(place.runs)], logs)
    if code in (0, 1) and document is not None and "checks" in document:
        return document
    return failure(code, document, logs / "stderr")


def _real_parity(
    request: Request, plan: ParityPlan, head: Place, base: Place | None, folder: Path, tell: Tell
) -> list[Finding]:
    def side(place: Place, name: str, groups: int, implementation: str | None) -> Side:
        configurations = [
            Configuration(
                name=f"{name} seed {seed}",
                workload=plan.workload,
                world_size=plan.world_size or 1,
                replica_groups=groups,
                implementation=implementation,
                seed=seed,
                options=plan.options,
            )
            for seed in range(plan.seeds)
        ]
        logs = folder / "logs" / f"parity-{name}"
        found = interleaved_on(place, configurations, 1, request.extra, logs, tell).values()
        return Side(
            tuple(record for one in found for record in one.records),
            tuple(error for one in found for error in one.failures),
        )

    two_d = request.implementation
    return parity.judge_real(
        plan,
        side(head, "1D", 1, scaling.SWEEP_1D),
        side(head, "head", plan.replica_groups, two_d),
        None if base is None else side(base, "base", plan.replica_groups, two_d),
    )


def _configurations(request: Request) -> list[Configuration]:
    """Those of the plan, with the repository's own implementation where 2D is run."""
    return [
        configuration.model_copy(update={"implementation": request.implementation})
        if request.implementation is not None
        and (configuration.implementation is None or configuration.replica_groups > 1)
        else configuration
        for configuration in request.plan.configurations
    ]


def _place(request: Request, name: str, checkout: Path, folder: Path, tell: Tell) -> Place:
    place = Place(
        name=name,
        folder=checkout.resolve(),
        runs=folder / name,
        timeout_s=request.plan.launch_timeout_s,
        **({} if request.python is None else {"python": checkout.resolve() / request.python}),
    )
    if request.setup is not None:
        tell(f"setting up {name}: {request.setup}")
        place.set_up(request.setup, folder / f"setup-{name}.log")
    if not place.python.is_file():
        raise ConfigError(
            "python",
            request.python,
            f"{place.python} is no interpreter.",
            "Name the one that --setup makes, relative to the checkout, such as .venv/bin/python.",
        )
    return place


def _option(options: Sequence[str], name: str, default: str) -> str:
    """What a command line says of an option of one value."""
    for place, word in enumerate(options):
        if word == name and place + 1 < len(options):
            return options[place + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return default


def renew_command(plan: Path, expected: Path) -> str:
    """What a person runs to renew the expected values."""
    return shlex.join(["sparse2d", "gate", "--plan", str(plan), "--expected", str(expected), "--renew"])
