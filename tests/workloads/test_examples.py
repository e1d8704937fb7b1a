from __future__ import annotations

import sys
from pathlib import Path

import pytest

import workloads
from suite.catalog import load_workload
from suite.data import open_source, source_class
from suite.launchers.local import LocalLauncher
from suite.samples_check import check_samples
from suite.spec import RunSpec, validated

EXAMPLES = Path(workloads.__file__).parent / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.toml"))


@pytest.fixture(autouse=True)
def in_the_folder_of_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user would run them."""
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(EXAMPLES)])
    monkeypatch.chdir(EXAMPLES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_gives_valid_samples(name: str) -> None:
    workload = load_workload(name)
    source_class(workload).check(workload)
    source = open_source(workload, 0)
    check_samples(source.train(0, 1_500), workload, 1_500)
    check_samples(source.evaluation(0, source.evaluation_size), workload, source.evaluation_size)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_example_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # its modules are found beside the TOML, by the ranks too
    workload = load_workload(str(EXAMPLES / name))
    run = validated(
        RunSpec, {"workload": workload, "layout": {"world_size": 2}, "steps": 20, "warmup_steps": 2}
    )
    record = LocalLauncher().launch(run, 0, tmp_path, lambda progress: None)
    assert record.error is None
    assert record.quality is not None
    assert record.quality.samples == open_source(workload, 0).evaluation_size
    # Both examples plant something to learn; after 20 steps they stand at 0.75 and above.
    assert record.quality.auc is not None
    assert record.quality.auc > 0.65


@pytest.mark.slow
def test_ones_own_model_is_the_same_in_every_layout(tmp_path: Path) -> None:
    # With the larger table second, table-wise sharding at T = 2 puts the features in another order.
    workload = load_workload("my_own.toml")
    small, large = sorted(workload.tables, key=lambda table: table.rows)
    sizes = {workload.tables[0].name: small.rows, workload.tables[1].name: large.rows}
    tables = tuple(table.model_copy(update={"rows": sizes[table.name]}) for table in workload.tables)
    workload = workload.model_copy(update={"tables": tables})
    losses = []
    for world_size in (1, 2):
        run = validated(
            RunSpec,
            {"workload": workload, "layout": {"world_size": world_size}, "steps": 2, "warmup_steps": 1},
        )
        record = LocalLauncher().launch(run, world_size, tmp_path, lambda progress: None)
        assert record.error is None, record.error
        losses.append(sum(rank.loss[0] for rank in record.ranks) / world_size)
    # The same sum of the same float32 terms in another order; a swapped table moves it by 1e-3.
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_the_full_example_names_every_field() -> None:
    # Beside those of the user's own model and data, which my_own.toml shows.
    text = (EXAMPLES / "my_tables.toml").read_text()
    fields = load_workload("my_tables.toml").model_dump()
    names = {
        *fields,
        *fields["model"],
        *fields["tables"][0],
        *fields["data"],
        *fields["batch"],
        *fields["defaults"],
    }
    absent = {name for name in names if name not in text}
    assert absent == {"factory", "location"}
