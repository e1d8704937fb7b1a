"""Where workloads on Criteo's tables take their samples from: synthetic ids, or a user's own files."""

from __future__ import annotations

from typing import Any

from reference_impl.errors import InvalidConfiguration
from suite.spec import DataSpec

SOURCES = {"criteo_kaggle": "CriteoKaggle", "criteo_1tb": "CriteoTerabyte"}


def criteo_data(
    data: str, days: int, lines: str, frequency_threshold: int, synthetic: dict[str, Any]
) -> DataSpec:
    """The data of a workload's parameters.

    Args:
        data: ``synthetic``, ``criteo_kaggle`` or ``criteo_1tb``.
        days, lines, frequency_threshold: see ``workloads.data.criteo``.
        synthetic: options of the synthetic source.

    Raises:
        InvalidConfiguration: there is no such data.
    """
    if data == "synthetic":
        return DataSpec(source="workloads.data.synthetic:SyntheticClicks", options=synthetic)
    if data not in SOURCES:
        raise InvalidConfiguration(
            "workload.data", data, "there is no such data.", f"Use one of {['synthetic', *SOURCES]}."
        )
    options: dict[str, Any] = {"lines": lines, "frequency_threshold": frequency_threshold}
    if data == "criteo_1tb":
        options["days"] = days
    return DataSpec(source=f"workloads.data.criteo:{SOURCES[data]}", options=options)


def criteo_name(name: str, data: str, days: int, frequency_threshold: int) -> str:
    """The name that tells what is not the workload's default."""
    if data == "synthetic":
        return name
    name = f"{name}_on_{data}"
    if data == "criteo_1tb" and days != 24:
        name = f"{name}_{days}_days"
    return name if frequency_threshold < 2 else f"{name}_from_{frequency_threshold}"
