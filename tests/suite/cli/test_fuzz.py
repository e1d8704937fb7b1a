"""Wrong command lines, TOML files and records by the hundred: one clear error each, nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.records import make_record
from tests.suite.cli.conftest import OTHER, TINY
from tests.suite.test_fuzz_spec import FUZZ, changed

EXAMPLE = Path(__file__).parents[3] / "workloads/examples/my_tables.toml"
VALUES = st.one_of(
    st.sampled_from(
        [
            *(
                "",
                " ",
                "0",
                "-1",
                "1",
                "2",
                "1e39",
                "1e-400",
                "nan",
                "-inf",
                "1,2",
                ",",
                "=",
                "a=b",
                "/",
                ".",
            ),
            *(
                "table_wise,=",
                "row_wise,people=row_wise",
                "..",
                "x:y",
                ":",
                "os:system",
                "json:",
                "\N{SNOWMAN}",
            ),
            *("9" * 400, "a" * 5000, "--", "-", "true", "no/such.toml", "/dev/null", "/proc/self/mem"),
            *(TINY, OTHER, "cpu", "cuda"),
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=10),
)
OPTIONS = st.sampled_from(
    [
        *("--implementation", "--placement", "--sync", "--sync-interval", "--sync-optimizer-state"),
        *("--sharding", "--optimizer", "--learning-rate", "--eps", "--scale", "--dense-optimizer"),
        *("--dense-learning-rate", "--scaling", "--steps", "--warmup-steps", "--launches", "--launcher"),
        *("--seed", "--device", "--stall-timeout", "--data", "--world-size", "--replica-groups"),
        *("--world-sizes", "--allow", "--resume", "--nothing"),
    ]
)
LINES = st.builds(
    lambda verb, first, options: [*verb, *first, *(word for option in options for word in option)],
    st.sampled_from(["run", "sweep", "compare", "reproduce", "workloads show", "workloads", "doctr"]).map(
        str.split
    ),
    st.lists(st.one_of(st.just(TINY), st.just(TINY), VALUES), max_size=2),
    st.lists(st.tuples(OPTIONS, VALUES), max_size=3),
)


@pytest.fixture(autouse=True)
def _no_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment is asked for takes tens of milliseconds, and is not what is tested."""
    monkeypatch.setattr("suite.environment.git_state", lambda root: (None, None))
    monkeypatch.setattr("suite.environment.gpus", lambda: ())


def judged(done: Any, folder: Path) -> None:
    """Either it is fine, or it is bad input: never a defect, never something half done."""
    assert done.code in (0, 2), done
    assert "Traceback" not in done.err
    halves = [path for path in folder.rglob("*") if path.name.startswith(".") or path.suffix == ".partial"]
    assert halves == []
    if done.code == 2:
        assert done.out == ""
        assert sum(line.startswith("Error:") for line in done.err.splitlines()) == 1
        assert "Remedy: " in done.err


@given(arguments=LINES)
@FUZZ
def test_command_lines(arguments: list[str], cli: Any, tmp_path: Path) -> None:
    judged(cli(*arguments), tmp_path)


LITERALS = st.sampled_from(
    [
        *("", "-1", "0", "1.5", "nan", "-inf", "1e300", "1e39", "9223372036854775808", "true", "[]", "[[]]"),
        *('""', '"items"', "{}", '{x = "y"}', "[1, [2]]", "1979-05-27", "'a' 'b'", '"\\u0000"', '"x:y"'),
        *('"' + "a" * 5000 + '"', "[-1]", "[1e3]", '["customer"]', '["a", "a"]', "2_000_000_000_000"),
        *("16 # fine", '"os:system"', "]", '"""'),
    ]
)


@st.composite
def tomls(draw: st.DrawFn) -> bytes:
    """The example with some of its lines changed, doubled, dropped or swapped, or its bytes damaged."""
    lines = EXAMPLE.read_text().splitlines()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["value", "value", "value", "value", "drop", "double", "swap", "header"])):
            case "value":
                places = [i for i, line in enumerate(lines) if " = " in line]
                place = draw(st.sampled_from(places))
                lines[place] = lines[place].split(" = ")[0] + " = " + draw(LITERALS)
            case "drop":
                del lines[place]
            case "double":
                lines.insert(place, lines[place])
            case "swap":
                lines[place], lines[0] = lines[0], lines[place]
            case "header":
                lines.insert(
                    place, draw(st.sampled_from(["[", "[tables]", "[[data]]", "[a.b]", "= 1", "a = "]))
                )
    content = "\n".join(lines).encode()
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(content)))
        content = content[:cut] + draw(st.binary(max_size=4)) + content[cut + draw(st.integers(0, 40)) :]
    return content


@given(content=tomls())
@FUZZ
def test_tomls(content: bytes, cli: Any, tmp_path: Path) -> None:
    Path("mine.toml").write_bytes(content)
    judged(cli("run", "mine.toml"), tmp_path)


VALID = json.loads(make_record().model_dump_json())


def written(content: Any, run_id: str) -> str:
    folder = Path("edited") / run_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.json").write_text(json.dumps(content), encoding="utf-8", errors="surrogatepass")
    return str(folder)


@given(content=changed(VALID))
@FUZZ
def test_edited_records(content: Any, cli: Any, tmp_path: Path) -> None:
    """Read by compare, which takes the verdict of a comparison or refuses the record by name."""
    good = written(VALID | {"run_id": "good"}, "good")
    done = cli("compare", good, written(content, "bad"), "--allow", "spec,device,stack,data,provenance")
    if done.out:
        assert (done.code in (0, 1, 2), done.err) == (True, "")
        assert "Verdict: " in done.out
    else:
        judged(done, tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ranks": []}, "ranks"),
        ({"ranks.0.step_ms": []}, "step"),
        ({"ranks.0.step_ms.0": -1}, "step"),
        ({"ranks.0.step_ms.0": 0}, "step"),
        ({"ranks.0.memory.process": -5}, "memory.process"),
        ({"ranks.1.rank": 0}, "rank"),
        ({"quality.auc": 7}, "auc"),
        ({"quality.samples": -1}, "samples"),
    ],
)
def test_records_edited_by_hand(change: dict[str, Any], words: str, cli: Any) -> None:
    content = json.loads(json.dumps(VALID))
    for path, value in change.items():
        *keys, last = path.split(".")
        holder: Any = content["launches"][0]
        for key in keys:
            holder = holder[int(key) if key.isdigit() else key]
        holder[int(last) if last.isdigit() else last] = value
    done = cli("compare", written(VALID | {"run_id": "good"}, "good"), written(content, "bad"))
    assert done.code == 2
    assert words in done.err


@pytest.mark.parametrize("columns", ["1", "10", "40"])
def test_a_narrow_terminal_loses_nothing(columns: str, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    done = cli("run", TINY, "--world-size", "two")
    assert done.code == 2
    assert "Error: --world-size = 'two'" in done.err
    done = cli("sweep", TINY, "--world-sizes", "1,2", "--replica-groups", "1,2")
    assert done.code == 0
    for row in ("1D T=1", "1D T=2", "2D T=2 M=2"):
        assert row in done.out


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (["--world-size", "8192"], "layout.world_size"),
        (["--scaling", "weak", "--world-size", "4"], "batch.per_rank"),
    ],
)
def test_what_is_larger_than_the_machine_is_refused_with_the_number(
    options: list[str], field: str, cli: Any, launched: list[Any]
) -> None:
    text = EXAMPLE.read_text().replace("per_rank = 256", "per_rank = 4_000_000_000")
    Path("mine.toml").write_text(text)
    done = cli("run", "mine.toml", *options)
    assert done.code == 2
    assert done.err.startswith(f"Error: {field}")
    assert "iB at least" in done.err
    assert launched == []


def test_a_table_larger_than_the_machine(cli: Any, launched: list[Any]) -> None:
    text = EXAMPLE.read_text().replace("rows = 20_000", "rows = 20_000_000_000")
    text = text.replace("workloads.data.synthetic:SyntheticClicks", "tests.helpers.toy_data:ToySource")
    Path("mine.toml").write_text(text)
    done = cli("run", "mine.toml", "--replica-groups", "2", "--world-size", "2", "--json")
    error = done.document["error"]
    # 2 copies of 20e9 rows of 16 floats and a moment.
    assert (error["field"], error["value"]) == ("tables.customer.rows", 20_000_000_000)
    assert f"{2 * 20e9 * 17 * 4 / 2**40:.1f} TiB" in error["message"]
    assert launched == []


@pytest.mark.parametrize("missing", ["HOME", "TMPDIR", "PATH"])
def test_without(missing: str, cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(missing, raising=False)
    assert cli("run", TINY).code == 0
    monkeypatch.setenv(missing, str(tmp_path / "nowhere"))
    assert cli("run", TINY).code == 0
