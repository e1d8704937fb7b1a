"""Text of delimited columns into arrays, without a Python object a field: for files of billions of lines.

A block of whole lines is one array of bytes. The ends of all its fields are found at once, and a field's last
eight characters are one 64-bit word, on which digits are converted side by side. What does not read is
told by its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

#: Bytes read at a time. Some ten arrays of a few times this size are alive at once.
BLOCK_BYTES = 2**22
#: A line may not be longer, so that a file without line ends is refused and not read into memory.
LONGEST_LINE = 2**16
_WORD = 8
_NEWLINE = 10


class BadLine(ValueError):
    """A line that does not read; ``line`` counts from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line:,}: {what}")
        self.line = line
        self.what = what


@dataclass(frozen=True)
class Fields:
    """The fields of n lines of a block.

    Attributes:
        text: uint8, the block with eight bytes before it.
        starts, ends: int64 [n, width], where each field begins and ends in ``text``.
        first_line: number of the first line in its file, from 1.
    """

    text: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    first_line: int

    def field(self, row: int, column: int) -> str:
        """One field as text."""
        raw = self.text[self.starts[row, column] : self.ends[row, column]].tobytes()
        return raw.decode("utf-8", "replace")

    def columns(self, first: int, stop: int) -> Fields:
        """Columns [first, stop)."""
        starts = np.ascontiguousarray(self.starts[:, first:stop])
        return Fields(self.text, starts, np.ascontiguousarray(self.ends[:, first:stop]), self.first_line)


def read_fields(stream: BinaryIO, width: int, delimiter: str, header: str | None = None) -> Iterator[Fields]:
    """The fields of a file, block by block.

    Args:
        stream: of lines that end in a newline, the last one too.
        width: fields a line.
        delimiter: one ASCII character.
        header: what the first line must be, if it is none of the lines to be read.

    Raises:
        BadLine: another header, another number of fields, or no newline at the end.
    """
    rest = b"" if header is None else _without_header(stream, header)
    line = 1 if header is None else 2
    while chunk := rest + (block := stream.read(BLOCK_BYTES)):
        cut = chunk.rfind(b"\n") + 1
        rest = chunk[cut:]
        if cut:
            text = np.frombuffer(b"\0" * _WORD + chunk[:cut], dtype=np.uint8)
            fields = _fields(text, width, delimiter, line)
            line += len(fields.starts)
            yield fields
        elif not block:
            raise BadLine(line, "it is cut short: the file ends without a newline")
        elif len(rest) > LONGEST_LINE:
            raise BadLine(line, f"it is longer than {LONGEST_LINE:,} bytes")


def _without_header(stream: BinaryIO, header: str) -> bytes:
    """What was read beyond the first line."""
    begin = stream.read(LONGEST_LINE)
    first, _, rest = begin.partition(b"\n")
    if first.rstrip(b"\r") != header.encode():
        raise BadLine(1, f"it is not {header!r}")
    return rest


def _fields(text: np.ndarray, width: int, delimiter: str, first_line: int) -> Fields:
    ends = np.flatnonzero((text == ord(delimiter)) | (text == _NEWLINE))
    is_newline = text[ends] == _NEWLINE
    if (
        len(ends) % width
        or not is_newline[width - 1 :: width].all()
        or is_newline.sum() != len(ends) // width
    ):
        found = np.diff(np.flatnonzero(is_newline), prepend=-1)
        bad = int(np.flatnonzero(found != width)[0])
        raise BadLine(first_line + bad, f"{found[bad]} fields, not {width}")
    starts = np.empty_like(ends)
    starts[0] = _WORD
    starts[1:] = ends[:-1] + 1
    return Fields(text, starts.reshape(-1, width), ends.reshape(-1, width), first_line)


def decimals(fields: Fields, what: str, low: int, high: int) -> np.ndarray:
    """Whole numbers, int64 of the shape of ``fields``; an empty field is 0.

    Raises:
        BadLine: a field is no whole number in [low, high].
    """
    lengths = fields.ends - fields.starts
    negative = (lengths > 0) & (fields.text[np.minimum(fields.starts, len(fields.text) - 1)] == ord("-"))
    digits = lengths - negative
    words = _last_words(fields)
    # Characters before the field become "0": they are the low bytes, the text being read little-endian.
    before = _MASKS[np.minimum(digits, _WORD)]
    words = (words & ~before) | (_ZEROS & before)
    bad = (words & _HIGH_NIBBLES != _ZEROS) | (((words & _LOW_NIBBLES) + _SIXES) & _HIGH_NIBBLES != 0)
    bad |= negative & (digits == 0)
    found = words & _LOW_NIBBLES
    for factor, shift, mask in _PAIRS:
        found = (found * factor + (found >> shift)) & mask
    values = found.astype(np.int64)
    values[negative] *= -1
    long = digits > _WORD
    for row, column in zip(*np.nonzero(long), strict=True):
        text = fields.field(int(row), int(column))
        plain = text.removeprefix("-")
        bad[row, column] = not (plain.isascii() and plain.isdecimal() and len(plain) < 19)
        values[row, column] = 0 if bad[row, column] else int(text)
    bad |= (values < low) | (values > high)
    _refuse_first(fields, bad, f"{what} {{}} is no whole number from {low} to {high}")
    return values


def hexadecimals(fields: Fields, what: str) -> np.ndarray:
    """Numbers of eight hexadecimal digits in lower case, uint32 of the shape of ``fields``; 0 where empty.

    Raises:
        BadLine: a field is neither.
    """
    lengths = fields.ends - fields.starts
    words = _last_words(fields)
    empty = lengths == 0
    words[empty] = _ZEROS
    digits = (words & _LOW_NIBBLES) + ((words >> _U(6)) & _ONES) * _U(9)
    above_nine = ((digits + _SIXES) >> _U(4)) & _ONES
    # Written out again it must be what was read.
    bad = (digits & _HIGH_NIBBLES != 0) | (digits + _ZEROS + above_nine * _U(0x27) != words)
    bad |= ~empty & (lengths != _WORD)
    _refuse_first(fields, bad, f"{what} {{}} is not eight hexadecimal digits")
    found = ((digits << _U(4)) | (digits >> _U(8))) & _U(0x00FF00FF00FF00FF)
    found = ((found << _U(8)) | (found >> _U(16))) & _U(0x0000FFFF0000FFFF)
    return ((found << _U(16)) | (found >> _U(32))).astype(np.uint32)


def _last_words(fields: Fields) -> np.ndarray:
    """The eight characters before each field's end as one word, the first character lowest."""
    text = fields.text
    words = np.ndarray((len(text) - _WORD + 1,), np.dtype("<u8"), buffer=text, strides=(1,))
    return words[fields.ends - _WORD]


def _refuse_first(fields: Fields, bad: np.ndarray, what: str) -> None:
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise BadLine(fields.first_line + row, what.format(repr(fields.field(row, column))))


_U = np.uint64
_ONES = _U(0x0101010101010101)
_SIXES = _U(0x0606060606060606)
_ZEROS = _U(0x3030303030303030)
_LOW_NIBBLES = _U(0x0F0F0F0F0F0F0F0F)
_HIGH_NIBBLES = _U(0xF0F0F0F0F0F0F0F0)
#: By the number of digits: the bytes of a word that lie before them.
_MASKS = np.array([2**64 - 1 if n == 0 else 2 ** (8 * (_WORD - n)) - 1 for n in range(_WORD + 1)], _U)
#: Neighbouring digits become numbers of two, then four, then eight digits.
_PAIRS = (
    (_U(10), _U(8), _U(0x00FF00FF00FF00FF)),
    (_U(100), _U(16), _U(0x0000FFFF0000FFFF)),
    (_U(10_000), _U(32), _U(0x00000000FFFFFFFF)),
)
