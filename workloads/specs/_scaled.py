"""Workloads in any size: one factor on the rows of their tables, told by their name.

Tables of fewer than SMALL rows are lists of things that do not grow with a system (hours of the week,
countries), so they keep their rows; larger ones never fall below SMALL.
"""

from __future__ import annotations

import math

from reference_impl.errors import InvalidConfiguration

SMALL = 1_000


def scaled_rows(rows: int, row_factor: float) -> int:
    """Rows of a table of ``rows`` rows at factor 1."""
    return rows if rows < SMALL else max(SMALL, round(rows * row_factor))


def scaled_name(name: str, row_factor: float, default: float) -> str:
    """The name that tells the factor, where it is not the workload's own: ``ctr_zipf_rows_0_5``.

    Raises:
        InvalidConfiguration: the factor is no positive number.
    """
    if not (math.isfinite(row_factor) and row_factor > 0):
        raise InvalidConfiguration(
            "workload.row_factor", row_factor, "tables cannot be scaled by it.", "Use a number above 0."
        )
    if row_factor == default:
        return name
    factor = "".join(c if c.isalnum() else "_" for c in f"{row_factor:g}")
    return f"{name}_rows_{factor}"
