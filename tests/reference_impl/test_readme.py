"""The README's examples say what they print, and its reading order names every module."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import reference_impl

FOLDER = Path(reference_impl.__file__).parent


def test_examples_print_what_the_readme_shows() -> None:
    result = doctest.testfile(str(FOLDER / "README.md"), module_relative=False)
    assert result.attempted >= 8
    assert result.failed == 0


def test_reading_order_names_every_module_once() -> None:
    listed = re.findall(r"^\| \[([\w/]+\.py)\]\(\1\)", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(
        str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*.py") if p.name != "__init__.py"
    )


def test_the_picture_is_there() -> None:
    assert (FOLDER / "two_dimensional.svg").read_text().startswith("<svg")
