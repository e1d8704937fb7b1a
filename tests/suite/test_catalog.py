from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from suite import catalog
from suite.catalog import each_workload, list_workloads, load_workload, workload_names
from suite.data import source_class
from suite.errors import ConfigError
from suite.spec import WorkloadSpec

MINIMAL = """
name = "mine"
[model]
dense_features = 2
bottom_mlp = [8]
over_mlp = [4, 1]
[[tables]]
name = "user"
rows = 10
dim = 8
features = ["user"]
[data]
source = "workloads.data.synthetic:SyntheticClicks"
[batch]
global_size = 8
per_rank = 4
"""


def refused(name: str) -> tuple[str, str]:
    """Field and whole text of the error."""
    with pytest.raises(ConfigError) as caught:
        load_workload(name)
    report = caught.value.report
    assert report.remedy
    return str(report.field), f"{report.message} {report.remedy}"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's module of workloads, in the working folder."""
    (tmp_path / "their_workloads.py").write_text(
        "from suite.catalog import load_workload\n"
        "from suite.spec import TableSpec\n"
        "def good():\n    return load_workload('smoke')\n"
        "def invalid():\n    return TableSpec(name='user', rows=0, dim=8, features=('user',))\n"
        "def raises():\n    raise KeyError('rows')\n"
        "def nothing():\n    pass\n"
        "number = 3\n"
        "def sized(rows: int = 10, share: float = 0.5, name: str = 'own'):\n"
        "    return load_workload('smoke').model_copy(update={'name': f'{name}_{rows}_{share}'})\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "their_workloads", raising=False)
    return "their_workloads"


def test_named_workloads_are_listed_by_name() -> None:
    assert workload_names() == [workload.name for workload in list_workloads()]
    assert {"smoke", "dlrm_small", "movielens_100k"} <= set(workload_names())


@pytest.mark.parametrize("workload", list_workloads(), ids=lambda workload: workload.name)
def test_named_workloads_can_run_here(workload: WorkloadSpec) -> None:
    source_class(workload).check(workload)
    assert workload.description
    assert workload.defaults.warmup_steps < workload.defaults.steps


def test_an_unknown_name_brings_the_nearest_one() -> None:
    field, text = refused("movielens100k")
    assert field == "workload"
    assert "Did you mean movielens_100k?" in text


def test_a_name_like_no_other_brings_them_all() -> None:
    _, text = refused("zzz")
    assert "Did you mean" not in text
    assert "smoke" in text


def test_toml(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL)
    workload = load_workload(str(path))
    assert workload.name == "mine"
    assert workload.tables[0].features == ("user",)


def test_location_is_set_and_not_hashed() -> None:
    workload = load_workload("smoke", location="/my/folder")
    assert workload.data.location == "/my/folder"
    assert workload.spec_hash == load_workload("smoke").spec_hash


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("rows = 10", "row = 10", "tables.0.row"),
        ("rows = 10", "height = 10", "tables.0.rows"),
        ("rows = 10", "rows = 10\ncolour = 3", "tables.0.colour"),
        ("rows = 10", 'rows = "ten"', "tables.0.rows"),
        ("dim = 8", "dim = 7", "tables.0.dim"),
        ("[batch]", "[bacth]", "bacth"),
        ('name = "mine"', "name = 5", "name"),
    ],
)
def test_a_wrong_toml_field_is_named(tmp_path: Path, old: str, new: str, field: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL.replace(old, new, 1))
    named, text = refused(str(path))
    assert named == field
    assert f"in {path}: " in text


@pytest.mark.parametrize(
    ("old", "new", "meant"),
    [
        ("rows = 10", "row = 10", "rows"),
        ("[batch]", "[bacth]", "batch"),
        ("dim = 8", 'dim = 8\npooling = "maen"', "mean"),
    ],
)
def test_a_misspelt_word_of_a_toml_brings_the_right_one(
    tmp_path: Path, old: str, new: str, meant: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL.replace(old, new, 1))
    assert f"Did you mean {meant}?" in refused(str(path))[1]


def test_malformed_toml_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL.replace("dense_features = 2", "dense_features = "))
    field, text = refused(str(path))
    assert field == "workload"
    assert "line 4" in text


def test_toml_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe\x00")
    assert refused(str(path))[0] == "workload"


def test_toml_that_is_nested_too_deep(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"x = {'[' * 5_000}{']' * 5_000}")
    assert refused(str(path))[0] == "workload"


def test_a_working_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert refused("smoke")[0] == "working folder"


def test_toml_that_is_not_there(tmp_path: Path) -> None:
    assert "No such file" in refused(str(tmp_path / "absent.toml"))[1]


def test_toml_that_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    assert "cannot be read" in refused(str(folder))[1]


def test_a_function_of_the_users_own(module: str) -> None:
    assert load_workload(f"{module}:good").name == "smoke"


@pytest.mark.parametrize(
    ("attribute", "field", "text"),
    [
        ("absent", "workload", "no attribute"),
        ("invalid", "rows", "greater than or equal to 1"),
        ("raises", "workload", "KeyError"),
        ("nothing", "workload", "returns NoneType"),
        ("number", "workload", "not callable"),
    ],
)
def test_a_wrong_function_of_the_users_own(module: str, attribute: str, field: str, text: str) -> None:
    found_field, found_text = refused(f"{module}:{attribute}")
    assert found_field == field
    assert text in found_text


def test_a_wrong_field_of_a_workload_names_the_function_that_builds_it(module: str) -> None:
    assert f"in {module}:invalid: " in refused(f"{module}:invalid")[1]


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ("", "own_10_0.5"),
        (",rows=3", "own_3_0.5"),
        (",share=1e-3,rows=4", "own_4_0.001"),
        (",name=mine", "mine_10_0.5"),
    ],
)
def test_parameters_of_a_workload(module: str, parameters: str, name: str) -> None:
    assert load_workload(f"{module}:sized{parameters}").name == name


@pytest.mark.parametrize(
    ("parameters", "field", "text"),
    [
        (",columns=3", "workload", "['name', 'rows', 'share']"),
        (",rows", "workload", "PARAMETER=VALUE"),
        (",", "workload", "PARAMETER=VALUE"),
        (",rows=3,rows=4", "workload", "again"),
        (",rows=many", "workload.rows", "no int"),
        (",rows=1.5", "workload.rows", "no int"),
        (",share=half", "workload.share", "no float"),
    ],
)
def test_a_wrong_parameter_is_named(module: str, parameters: str, field: str, text: str) -> None:
    found_field, found_text = refused(f"{module}:sized{parameters}")
    assert found_field == field
    assert text in found_text


def test_a_workload_without_parameters_says_so() -> None:
    assert "It has no parameters" in refused("smoke,row_factor=2")[1]


def test_a_module_that_is_not_there(module: str) -> None:
    text = refused("no_such_module_here:workload")[1]
    assert "does not import" in text
    assert "Run from the folder that holds it" in text


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def (", "SyntaxError"),
        ("import no_such_module_here", "No module named 'no_such_module_here'"),
        ("import their_bad.part", "not a package"),
    ],
)
def test_a_module_that_does_not_import_is_to_be_mended(
    module: str, source: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("their_bad.py").write_text(source)
    monkeypatch.delitem(sys.modules, "their_bad", raising=False)
    text = refused("their_bad:workload")[1]
    assert words in text
    assert "Mend that module" in text


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of named workloads, with two right ones; what is put into the folder is one, too."""
    folder = tmp_path / "their_specs"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    source = "from suite.catalog import load_workload\ndef {0}():\n    return {1}\n"
    named = "load_workload('tests.helpers.records:tiny').model_copy(update={{'name': '{}'}})"
    for name in ("a", "z"):
        (folder / f"{name}.py").write_text(source.format(name, named.format(name)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(catalog, "SPECS", "their_specs")
    for loaded in [m for m in sys.modules if m.partition(".")[0] == "their_specs"]:
        monkeypatch.delitem(sys.modules, loaded)
    return folder


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "from suite.spec import WorkloadSpec\ndef bad():\n    return WorkloadSpec()",
            "in their_specs.bad:bad: ",
        ),
        ("def (", "their_specs.bad"),
        ("from their_specs.a import a as bad", "specs/bad.py names another workload"),
    ],
)
def test_a_wrong_file_keeps_out_no_other_workload(specs: Path, source: str, words: str) -> None:
    (specs / "bad.py").write_text(source)
    found = dict(each_workload())
    assert list(found) == ["a", "bad", "z"]
    assert isinstance(found["a"], WorkloadSpec)
    assert isinstance(found["z"], WorkloadSpec)
    error = found["bad"]
    assert isinstance(error, ConfigError)
    assert words in error.report.message


def test_listing_and_checking_need_no_torch() -> None:
    program = (
        "import sys\n"
        "from suite.catalog import list_workloads\n"
        "from suite.data import source_class\n"
        "for workload in list_workloads():\n    source_class(workload).check(workload)\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
