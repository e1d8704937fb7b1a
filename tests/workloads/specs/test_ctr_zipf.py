from __future__ import annotations

import numpy as np
import pytest

from suite.catalog import load_workload
from suite.data import open_source
from suite.errors import ConfigError
from workloads.data.synthetic import SyntheticClicks, expected_auc
from workloads.specs.ctr_zipf import BASE_RATE, BEST_AUC, ctr_zipf


def test_tables_are_many_and_mixed() -> None:
    tables = ctr_zipf().tables
    assert len(tables) == 48
    assert {t.dim for t in tables} == {8, 16, 32, 64}
    assert min(t.rows for t in tables) == 40
    assert max(t.rows for t in tables) == 100_000
    assert sum(t.rows for t in tables) == 868_405
    assert {"0.4", "1.0", "12.0"} <= {str(t.pooling_factor) for t in tables}


def test_the_best_auc_and_the_base_rate_are_the_stated_ones() -> None:
    """On samples of another stream than the figures come from."""
    source = open_source(ctr_zipf(), seed=5)
    assert isinstance(source, SyntheticClicks)
    parts = [source._draw(source._train, k * 2_500, (k + 1) * 2_500) for k in range(8)]
    probabilities = np.concatenate([p for _, p in parts])
    labels = np.concatenate([samples.labels for samples, _ in parts])
    # Standard errors over 20,000 samples: AUC 0.0009 (0.0004 over 100,000), base rate 0.0033. Four of them.
    assert expected_auc(probabilities) == pytest.approx(BEST_AUC, abs=0.0036)
    assert labels.mean() == pytest.approx(BASE_RATE, abs=0.0132)
    assert probabilities.mean() == pytest.approx(BASE_RATE, abs=0.0132)
    assert str(BEST_AUC) in ctr_zipf().description


def test_the_record_repeats_the_best_auc_on_its_own_split() -> None:
    # Over 16,384 samples: standard error 0.0009.
    assert open_source(ctr_zipf(), 0).describe()["bayes_auc"] == pytest.approx(BEST_AUC, abs=0.0036)


def test_a_row_factor_is_told_by_name_and_hash() -> None:
    ten, half = load_workload("ctr_zipf,row_factor=10"), load_workload("ctr_zipf,row_factor=0.5")
    assert (ten.name, half.name) == ("ctr_zipf_rows_10", "ctr_zipf_rows_0_5")
    assert len({ctr_zipf().spec_hash, ten.spec_hash, half.spec_hash}) == 3
    rows = {t.name: t.rows for t in ten.tables}
    assert rows["user_0"] == 1_000_000
    assert rows["context_0"] == 160  # small tables stay small
    assert {t.name: t.rows for t in half.tables}["device_2"] == 1_000  # and none becomes one


@pytest.mark.parametrize("factor", ["0", "-1", "inf", "nan"])
def test_a_factor_that_scales_nothing_is_refused(factor: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_workload(f"ctr_zipf,row_factor={factor}")
    assert caught.value.report.field == "workload.row_factor"
