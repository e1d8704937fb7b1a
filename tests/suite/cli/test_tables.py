from __future__ import annotations

import pytest
from rich.console import Console

from suite.cli.tables import interval, label, measured, number, show_comparison, show_runs, size
from suite.compare import compare
from suite.session import Outcome
from suite.statistics import Interval
from tests.helpers.records import make_launch, make_record, make_run, tiny


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (7.0, "7"), (4.567, "4.57"), (45.67, "45.7"),
     (456.7, "457"), (4567.8, "4,568"), (0.012345, "0.0123")],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("value", "text"), [(5.0, "5.00"), (12.0, "12.0"), (123.4, "123"), (0.5, "0.500")])
def test_measured_values_keep_their_digits(value, text):
    assert measured(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (1000, "0.977 KiB"), (1536, "1.50 KiB"),
     (3 * 2**20, "3 MiB"), (5.5 * 2**40, "5.50 TiB")],
)  # fmt: skip
def test_bytes(value, text):
    assert size(value) == text


def test_intervals():
    assert interval(None) == "-"
    assert interval(Interval(median=5)) == "5.00"
    assert interval(Interval(median=5, low=4.5, high=12, confidence=0.75)) == "5.00 [4.50, 12.0]"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "1D T=2"),
        ({"layout": {"world_size": 4, "replica_groups": 2}}, "2D T=4 M=2"),
        ({"layout": {"world_size": 4, "replica_groups": 2}, "sync_interval": 2}, "2D T=4 M=2 k=2"),
        (
            {"layout": {"world_size": 4, "replica_groups": 2}, "sync_optimizer_state": "delayed"},
            "2D T=4 M=2 delayed",
        ),
    ],
)
def test_labels(changes, text):
    assert label(make_run(**changes)) == text


@pytest.mark.parametrize(("optimizer", "noted"), [("rowwise_adagrad", True), ("sgd", False)])
def test_an_unlike_column_split_is_noted_under_the_table(optimizer, noted, capsys):
    plain = tiny().model_dump(mode="json")
    for table in plain["tables"]:
        table["dim"] = 8
    plain["model"]["bottom_mlp"] = [8]
    runs = [
        make_run(
            workload=plain,
            layout={"world_size": 2, "replica_groups": m, "sharding": "column_wise"},
            optimizer={"name": optimizer},
        )
        for m in (1, 2)
    ]
    show_runs([Outcome(run, make_record(run=run), None, None) for run in runs], Console(width=200))
    assert ("the AUC compares optimizers, too" in capsys.readouterr().out) == noted


@pytest.mark.parametrize("held_out", [True, False])
def test_a_missing_auc_is_explained(held_out, capsys):
    launch = make_launch() if held_out else make_launch().model_copy(update={"quality": None})
    show_runs([Outcome(make_run(), make_record([launch]), None, None)], Console(width=200))
    assert ("no AUC: the data source holds out no samples" in capsys.readouterr().out) == (not held_out)


def test_reasons_that_differ_in_decimals_alone_are_one_sentence(capsys):
    two_d = make_run(layout={"world_size": 2, "replica_groups": 2})
    loss = make_launch(auc=0.76)
    assert loss.quality is not None
    loss = loss.model_copy(update={"quality": loss.quality.model_copy(update={"log_loss": 0.58})})
    after = make_record([loss], two_d, run_id="20260101T000000Z-bbbbbb")
    show_comparison(compare([make_record()], [after]), Console(width=200))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("auc, log_loss: ")]
    assert "the difference +0.0100 / -0.0200 is beyond the margin 0.001, but" in line


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"implementation": "their_code:Mine"}, "; their_code:Mine"),
        ({"optimizer": {"name": "sgd"}}, "; sgd"),
        (
            {"layout": {"sharding": "row_wise", "sharding_by_table": {"people": "table_wise"}}},
            "; row_wise, people table_wise",
        ),
    ],
)
def test_what_is_not_the_default_stands_above_the_table(changes, words, capsys):
    run = make_run(**{"implementation": "reference_2d"} | changes)
    show_runs([Outcome(run, make_record(run=run), None, None)], Console(width=200))
    first = capsys.readouterr().out.splitlines()[0]
    assert first.partition(tiny().spec_hash)[2] == words


@pytest.mark.parametrize(
    ("told", "noted"), [(0.86123, "is 0.8612, the planted"), (None, None), ("high", None)]
)
def test_the_best_auc_that_the_data_source_states_is_under_the_table(told, noted, capsys):
    run = make_run()
    launch = make_launch()
    launch = launch.model_copy(update={"data": launch.data | {"bayes_auc": told}})
    show_runs([Outcome(run, make_record(run=run, launches=[launch]), None, None)], Console(width=200))
    printed = capsys.readouterr().out
    assert ("best AUC to expect" in printed) == (noted is not None)
    assert noted is None or noted in printed
