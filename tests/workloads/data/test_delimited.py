from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.data import delimited
from workloads.data.delimited import BadLine, decimals, hexadecimals, read_fields


def whole_numbers(text: str, low: int = -(2**63), high: int = 2**63 - 1) -> list[list[int]]:
    blocks = read_fields(io.BytesIO(text.encode()), 2, "\t")
    return [row for block in blocks for row in decimals(block, "number", low, high).tolist()]


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(-(10**17), 10**17))] * 2), max_size=40))
def test_whole_numbers_are_those_that_were_written(rows: list[tuple[int | None, int | None]]) -> None:
    text = "".join("\t".join("" if x is None else str(x) for x in row) + "\n" for row in rows)
    assert whole_numbers(text) == [[x or 0 for x in row] for row in rows]


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40))
def test_hexadecimals_are_those_that_were_written(values: list[int]) -> None:
    text = "".join(f"{value:08x}\t\n" for value in values)
    blocks = list(read_fields(io.BytesIO(text.encode()), 2, "\t"))
    assert np.concatenate([hexadecimals(b, "id") for b in blocks]).tolist() == [[v, 0] for v in values]


@pytest.mark.parametrize("wrong", ["-", "+1", "1.5", "1e3", " 1", "0x1", "12345678a", "--1", "1_0", "/", ":"])
def test_what_is_no_whole_number_is_refused_by_line(wrong: str) -> None:
    with pytest.raises(BadLine, match=r"line 2: number '.*' is no whole number") as caught:
        whole_numbers(f"1\t2\n3\t{wrong}\n4\tx\n")
    assert caught.value.line == 2


def test_a_number_out_of_range_is_refused() -> None:
    with pytest.raises(BadLine, match="line 1: number '2' is no whole number from 0 to 1"):
        whole_numbers("1\t2\n", 0, 1)


@pytest.mark.parametrize(
    "wrong",
    ["1234567", "123456789", "1234567g", "ABCDEF01", "oooooooo", "1234567\x10", "-1234567", "@@@@@@@@"],
)
def test_what_is_no_hexadecimal_is_refused(wrong: str) -> None:
    blocks = list(read_fields(io.BytesIO(f"00000001\t{wrong}\n".encode()), 2, "\t"))
    with pytest.raises(BadLine, match=r"line 1: id '.*' is not eight hexadecimal digits"):
        hexadecimals(blocks[0], "id")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("1\t2\n3\n4\t5\n", 2, "1 fields, not 2"),
        ("1\t2\n3\t4\t5\n", 2, "3 fields, not 2"),
        ("1\t2\n\n3\t4\n", 2, "1 fields, not 2"),
        ("1\n2\t3\t4\n", 1, "1 fields, not 2"),  # four fields in two lines
        ("1\t2\n3\t4", 2, "cut short"),
    ],
)
def test_lines_of_another_shape_are_refused_by_line(text: str, line: int, words: str) -> None:
    with pytest.raises(BadLine, match=words) as caught:
        whole_numbers(text)
    assert caught.value.line == line


@pytest.mark.parametrize("size", [1, 3, 7, 64])
def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", size)
    assert whole_numbers("1\t-22\n333\t\n\t123456789012\n") == [[1, -22], [333, 0], [0, 123456789012]]
    with pytest.raises(BadLine, match="line 3"):
        whole_numbers("1\t2\n333\t4\nx\t5\n")


def test_a_file_without_line_ends_is_not_read_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1024)
    with pytest.raises(BadLine, match="longer than"):
        whole_numbers("x" * 100_000)


def test_an_empty_file_has_no_fields() -> None:
    assert whole_numbers("") == []
