from __future__ import annotations

import pytest

from workloads.specs.network_bound import network_bound


@pytest.mark.parametrize(("rows", "name"), [(4_000, "network_bound"), (1_000, "network_bound_rows_1000")])
def test_what_is_sent_is_what_its_docstring_says(rows: int, name: str) -> None:
    spec = network_bound(rows)
    tables = sum(t.rows * t.dim * 4 for t in spec.tables)
    pooled = spec.batch.global_size * sum(len(t.features) * t.dim * 4 for t in spec.tables)
    assert spec.name == name
    assert (tables, pooled) == (8.192e6 * rows / 4_000, pytest.approx(8.4e6, rel=2e-3))
