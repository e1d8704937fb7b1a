"""Putting the libraries of asv's pages beside them, on a page and libraries made by hand."""

from __future__ import annotations

import pytest

from benchmarks import asv_page
from benchmarks.asv_page import FILES, make_self_contained
from suite.errors import ConfigError

CHECKED = 'integrity="sha512-abc==" crossorigin="anonymous" referrerpolicy="no-referrer"'


@pytest.fixture
def pages(tmp_path):
    """A page that asks another host for a script and a style, and its own for another script."""
    folder = tmp_path / "html"
    folder.mkdir()
    (folder / "index.html").write_text(
        f'<script src="https://cdn.example.org/flot/0.8.3/jquery.flot.min.js" {CHECKED}></script>\n'
        '<link href="https://cdn.example.org/css/bootstrap.min.css" integrity="x" crossorigin="anonymous">\n'
        '<script src="asv.js"></script> <a href="https://example.org/">elsewhere</a>'
    )
    return folder


@pytest.fixture
def libraries(tmp_path):
    for file in FILES.values():
        path = tmp_path / "libraries/node_modules" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"the content of {file}")
    return tmp_path / "libraries"


def test_the_page_asks_no_other_host(pages, libraries):
    make_self_contained(pages, libraries)
    assert (pages / "index.html").read_text() == (
        '<script src="libraries/jquery.flot.min.js"></script>\n'
        '<link href="libraries/bootstrap.min.css">\n'
        '<script src="asv.js"></script> <a href="https://example.org/">elsewhere</a>'
    )
    assert (pages / "libraries/jquery.flot.min.js").read_text() == "the content of flot/jquery.flot.js"


def test_a_file_that_is_not_known_is_named_and_nothing_is_written(pages, libraries):
    index = pages / "index.html"
    index.write_text(index.read_text().replace("jquery.flot.min.js", "newer.js"))
    before = index.read_text()
    with pytest.raises(ConfigError, match=r"not known here") as caught:
        make_self_contained(pages, libraries)
    assert caught.value.report.value == "newer.js"
    assert index.read_text() == before
    assert not (pages / "libraries").exists()


def test_without_npm_the_remedy_is_told(pages, tmp_path, monkeypatch):
    monkeypatch.setattr(asv_page.shutil, "which", lambda _: None)
    with pytest.raises(ConfigError, match="not installed") as caught:
        make_self_contained(pages, tmp_path / "none")
    assert "where there is a network" in caught.value.report.remedy


def test_an_npm_that_fails_is_told(pages, tmp_path, monkeypatch):
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setattr(asv_page.shutil, "which", lambda _: str(npm))
    with pytest.raises(ConfigError, match="it fails: no network"):
        make_self_contained(pages, tmp_path / "none")
