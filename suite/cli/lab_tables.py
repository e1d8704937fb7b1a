"""How the quality lab's figures look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from suite.cli.tables import ABSENT, COLOURS, table
from suite.quality.ablation import PLAIN, Ablation, Effect
from suite.quality.parity import Arm, Estimate, Parity
from suite.quality.spec import EVERY_STEP, Schedule
from suite.quality.throughput import Cell, Throughput
from suite.spec import WorkloadSpec


def quality(found: Estimate, digits: int = 4) -> str:
    """``0.7851 [0.7848, 0.7854]``."""
    if found.low is None or found.high is None:
        return f"{found.mean:.{digits}f}"
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def signed(found: Estimate) -> str:
    """``-0.00040`` and below it ``[-0.00060, -0.00020]``."""
    if found.low is None or found.high is None:
        return f"{found.mean:+.5f}"
    return f"{found.mean:+.5f}\n[{found.low:+.5f}, {found.high:+.5f}]"


def arm_label(arm: Arm) -> str:
    """``2D M=4 momentum_scaled_rowwise_adagrad, lr 0.04``."""
    layout = "1D" if arm.replica_groups == 1 else f"2D M={arm.replica_groups}"
    return f"{layout} {arm.optimizer}, lr {arm.learning_rate:g}"


def show_parity(workload: WorkloadSpec, parity: Parity, console: Console) -> None:
    """Both arms, their learning curves, the differences, and the verdict last."""
    console.print(
        f"[bold]{workload.name}[/bold]  quality of 2D against 1D, emulated (exact mathematics of virtual "
        f"groups); {len(parity.seeds)} paired seeds; spec {workload.spec_hash}",
        soft_wrap=True,
    )
    for name, arm in parity.arms.items():
        console.print(f"{name}: {arm_label(arm)}", markup=False, soft_wrap=True)
    figures = table("", *parity.arms)
    figures.add_row("AUC", *(quality(arm.auc) for arm in parity.arms.values()))
    figures.add_row("normalized entropy", *(quality(a.normalized_entropy) for a in parity.arms.values()))
    reached = (arm.samples_to_target for arm in parity.arms.values())
    figures.add_row(
        f"samples to AUC {parity.target_auc:.4f}", *(ABSENT if x is None else f"{x:,.0f}" for x in reached)
    )
    if parity.samples_ratio is not None:
        figures.add_row("the same, over baseline", ABSENT, quality(parity.samples_ratio, 3))
    for points in zip(*(arm.curve[:-1] for arm in parity.arms.values()), strict=True):
        figures.add_row(f"AUC after {points[0].samples:,} samples", *(f"{p.auc.mean:.4f}" for p in points))
    console.print(figures)
    console.print()
    checks = table("candidate - baseline", "difference", "margin", "seeds needed\nif equal", "verdict")
    for check in parity.checks:
        checks.add_row(
            check.metric,
            signed(check.difference),
            f"{check.margin:.5f}",
            ABSENT if check.seeds_needed is None else str(check.seeds_needed),
            f"[{COLOURS[check.verdict]}]{check.verdict}[/]",
        )
    console.print(checks)
    console.print("Note: [low, high] are 95 % t intervals over seeds.", markup=False)
    if any(arm.samples_to_target is None for arm in parity.arms.values()):
        console.print(f"Note: {ABSENT} samples to AUC: a seed of that arm has not reached it.", markup=False)
    for check in parity.checks:
        console.print(f"{check.metric}: {check.reason}", markup=False, soft_wrap=True)
    colour = COLOURS[parity.verdict]
    doubt = f"; {', '.join(parity.undecided)} undecided" if parity.undecided else ""
    console.print(
        f"Verdict: [bold {colour}]{parity.verdict}[/] {escape(f'({parity.metric} decides{doubt})')}"
    )


def show_ablation(
    workload: WorkloadSpec, ablation: Ablation, ratios: Sequence[dict[str, Any]], console: Console
) -> None:
    """Arms at the shared learning rate and at their best, effects, and how second moments grow."""
    console.print(
        f"[bold]{workload.name}[/bold]  layout x optimizer, emulated (exact mathematics of virtual groups); "
        f"{len(ablation.seeds)} paired seeds; spec {workload.spec_hash}",
        soft_wrap=True,
    )
    for title, at_best in (
        (f"At the shared learning rate {ablation.shared_learning_rate:g}:", False),
        ("Each at its own best, tuned with the same budget:", True),
    ):
        console.print(f"\n{title}", markup=False)
        made = table("", "lr", "AUC", "entropy", "AUC - 1D", "entropy - 1D", "verdict")
        for name, arm in ablation.arms.items():
            if at_best and not arm.tuning:
                continue
            judged = arm.parity_at_best if at_best else arm.parity
            auc, entropy = (
                (arm.auc_at_best, arm.normalized_entropy_at_best)
                if at_best
                else (arm.auc, arm.normalized_entropy)
            )
            rate = arm.best_learning_rate if at_best else ablation.shared_learning_rate
            made.add_row(
                _short(name).replace(".", "\n", 1),
                f"{rate:g}{'*' if at_best and arm.best_at_the_edge else ''}",
                f"{auc.mean:.4f}",
                f"{entropy.mean:.4f}",
                *((ABSENT, ABSENT) if judged is None else (signed(c.difference) for c in judged.checks)),
                ABSENT if judged is None else _verdict(judged, workload),
            )
        console.print(made)
    if any(arm.best_at_the_edge for arm in ablation.arms.values()):
        console.print("* the end of the grid: the best may lie beyond (--multiples).", markup=False)
    console.print("\nEffects on AUC at the shared learning rate:", markup=False)
    effects = table("", "estimate", "low", "high")
    for name, effect in ablation.effects.items():
        bounds = (ABSENT if x is None else f"{x:+.5f}" for x in (effect.low, effect.high))
        effects.add_row(_short(name), f"{effect.estimate:+.5f}", *bounds)
    console.print(effects)
    for name, arm in ablation.arms.items():
        if diverged := [f"{score.learning_rate:g}" for score in arm.tuning if score.auc is None]:
            console.print(
                f"Note: {_short(name)} diverged at lr {', '.join(diverged)} while it was tuned.",
                markup=False,
                soft_wrap=True,
            )
    console.print("\nAUC lost by keeping the learning rate tuned for 1D:", markup=False)
    carried = table("", "lost")
    for name, arm in ablation.arms.items():
        if arm.tuning and arm.replica_groups > 1:
            lost = "diverged" if arm.carry_over is None else signed(arm.carry_over).replace("\n", " ")
            carried.add_row(_short(name), lost)
    console.print(carried)
    by_optimizer = {name: arm for name, arm in ablation.arms.items() if arm.layout_at_best is not None}
    if any(arm.optimizer != PLAIN for arm in by_optimizer.values()):
        console.print("\nAUC - 1D with the same optimizer, both at their best:", markup=False)
        same = table("", "difference", "verdict")
        for name, arm in by_optimizer.items():
            assert arm.layout_at_best is not None
            judged = arm.layout_at_best
            difference = signed(judged.checks[0].difference).replace("\n", " ")
            verdict = f"[{COLOURS[judged.verdict]}]{judged.verdict}[/]"
            same.add_row(_short(name), difference, verdict)
        console.print(same)
    schedule = next((Schedule(r["sync_interval"], r["sync_optimizer_state"]) for r in ratios), EVERY_STEP)
    which = "" if schedule == EVERY_STEP else f" (sync {schedule.suffix.strip('_')})"
    console.print(
        f"\nSecond moment under 2D{which} / under 1D, rows by how often 1D touches them:", markup=False
    )
    grown = table("M", "samples\na group", "touched in\nsteps from", "rows", "median", "80 % of rows")
    for ratio in ratios:
        median, spread = ABSENT, ABSENT
        if ratio["median"] is not None:
            median, spread = f"{ratio['median']:.2f}", f"[{ratio['low']:.2f}, {ratio['high']:.2f}]"
        grown.add_row(
            str(ratio["replica_groups"]),
            f"{ratio['group_batch']:g}",
            f"{ratio['touched_from']:.0%}",
            f"{ratio['rows']:,}",
            median,
            spread,
        )
    console.print(grown)
    console.print(
        "Note: [low, high] are 95 % t intervals over paired seeds; tuning used other seeds.", markup=False
    )


def show_throughput(found: Throughput, console: Console) -> None:
    """The cells, and the effects on step time."""
    console.print(
        f"\nT = {found.world_size} ranks (measured), samples to AUC {found.target_auc:.4f} (emulated):",
        markup=False,
    )
    made = table("", "step ms", "samples/s", "samples\nto AUC", "seconds\nto AUC")
    for name, cell in found.cells.items():
        made.add_row(
            _short(name),
            f"{cell.step_ms.median:.2f}",
            f"{cell.samples_per_s.median:,.0f}",
            ABSENT if cell.samples_to_target is None else f"{cell.samples_to_target:,.0f}",
            _seconds(cell),
        )
    console.print(made)
    console.print("\nEffects on the step time, as ratios (1: none):", markup=False)
    effects = table("", "ratio", "low", "high")
    for name, effect in found.effects.items():
        effects.add_row(name, *_ratio(effect))
    console.print(effects)
    console.print("\nThe same on the exposed time of components:", markup=False)
    components = table("", "", "ratio", "low", "high", left=2)
    for rollup, of_it in found.rollup_effects.items():
        for name, effect in of_it.items():
            components.add_row(rollup, name, *_ratio(effect))
    console.print(components)
    console.print(
        f"Note: [low, high] are 95 % t intervals over {found.launches} launches of each cell. How "
        "samples to AUC differ over seeds is not in the seconds. The optimizer has no effect on speed by "
        "construction: momentum scaling is the same kernel.",
        markup=False,
    )


def _verdict(judged: Parity, workload: WorkloadSpec) -> str:
    """The verdict, and below it the metric that decided it where that is not the one that was asked for."""
    decided = "" if judged.metric == workload.parity.metric else f"\n({judged.metric.split('_')[-1]})"
    return f"[{COLOURS[judged.verdict]}]{judged.verdict}[/]{decided}"


def _short(name: str) -> str:
    """An arm's name with its optimizer in one word: rowwise, momentum_scaled, frequency_scaled."""
    return name.replace("_rowwise_adagrad", "").replace("rowwise_adagrad", "rowwise")


def _ratio(effect: Effect) -> tuple[str, ...]:
    bounds = (ABSENT if x is None else f"{x:.3f}" for x in (effect.low, effect.high))
    return f"{effect.estimate:.3f}", *bounds


def _seconds(cell: Cell) -> str:
    return ABSENT if cell.time_to_target_s is None else f"{cell.time_to_target_s.median:.2f}"
