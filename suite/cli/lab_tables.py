"""How the quality lab's figures look."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from suite.cli.tables import ABSENT, COLOURS, table
from suite.quality.parity import Arm, Estimate, Parity
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
    for points in zip(*(arm.curve[:-1] for arm in parity.arms.values()), strict=True):
        figures.add_row(f"AUC after {points[0].samples:,}", *(f"{p.auc.mean:.4f}" for p in points))
    console.print(figures)
    console.print()
    checks = table("candidate - baseline", "difference", "margin", "seeds\nneeded", "verdict")
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
    for check in parity.checks:
        console.print(f"{check.metric}: {check.reason}", markup=False, soft_wrap=True)
    colour = COLOURS[parity.verdict]
    console.print(f"Verdict: [bold {colour}]{parity.verdict}[/] {escape(f'({parity.metric} decides)')}")
