"""The ablation as pictures (PNG)."""

from __future__ import annotations

from math import nan
from pathlib import Path

from suite.quality.ablation import Ablation, ArmResult
from suite.quality.library import Experiment


def draw(ablation: Ablation, experiment: Experiment, title: str) -> list[Path]:
    """Draws ``learning_rates.png`` (AUC over the grid, while tuning) and ``differences.png`` (arm - 1D).

    They lie in the experiment's folder; its suffix is in their names.

    Returns:
        Their paths. Nothing is drawn to a screen.
    """
    from matplotlib.figure import Figure  # takes a second to import, and one verb draws

    rates = Figure(figsize=(8, 5), layout="constrained")
    axes = rates.subplots()
    for name, arm in ablation.arms.items():
        if arm.tuning:
            axes.plot(
                [point.learning_rate for point in arm.tuning],
                [nan if point.auc is None else point.auc for point in arm.tuning],
                marker="o",
                label=name,
            )
    axes.axvline(ablation.shared_learning_rate, color="grey", linestyle=":", label="shared")
    axes.set(xscale="log", xlabel="learning rate of the tables", ylabel="AUC, tuning seeds", title=title)
    axes.legend(fontsize="x-small")

    arms = {name: arm for name, arm in ablation.arms.items() if arm.parity is not None}
    differences = Figure(figsize=(8, 1 + 0.4 * len(arms)), layout="constrained")
    axes = differences.subplots()
    for offset, label in ((-0.15, "shared learning rate"), (0.15, "each at its best")):
        places, means, errors = [], [], []
        for place, arm in enumerate(arms.values()):
            found = _difference(arm, at_best=offset > 0)
            if found is not None:
                places.append(place + offset)
                means.append(found[0])
                errors.append(found[1])
        axes.errorbar(means, places, xerr=errors, fmt="o", label=label)
    margin = next(arm.parity.margin for arm in arms.values() if arm.parity is not None)
    axes.axvspan(-margin, margin, alpha=0.15, color="green", label="margin")
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="AUC, arm - 1D, 95 % interval over paired seeds", title=title)
    axes.set_yticks(range(len(arms)), list(arms), fontsize="x-small")
    axes.invert_yaxis()
    axes.legend(fontsize="x-small")

    paths = [experiment.path / f"{name}{experiment.suffix}.png" for name in ("learning_rates", "differences")]
    for figure, path in zip((rates, differences), paths, strict=True):
        figure.savefig(path, dpi=120)
    return paths


def _difference(arm: ArmResult, at_best: bool) -> tuple[float, float] | None:
    """Mean and half width of the AUC's difference to 1D."""
    parity = arm.parity_at_best if at_best else arm.parity
    if parity is None:
        return None
    found = next(check.difference for check in parity.checks if check.metric == "auc")
    return found.mean, 0.0 if found.high is None else found.high - found.mean
