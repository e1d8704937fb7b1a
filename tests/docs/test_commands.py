"""Commands shown in the documentation are run; links in it lead somewhere.

The ``sh`` blocks of a page are one shell script: what a page shows must work in the order in which it shows
it. ``make`` lines are not run here (``make test`` would run this test); their targets must exist. ``make
test-slow`` runs those of every page; ``make test`` the README's, with one launch of each run instead of
five. What would write into the checkout runs in a copy of it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.checkout import copy_checkout

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")]
    if not page.parts[-2].startswith(".")
)
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
IN_A_COPY = (ROOT / "docs/asv.md",)
#: Lines that a reader runs once, outside of what a page shows.
SETTING = re.compile(r"^\s*(make\b|\. \.venv|git clone|cd )")


def lines_of(page: Path) -> list[str]:
    return [line for block in BLOCK.findall(page.read_text()) for line in block.splitlines()]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if lines_of(page)], ids=named)
def test_commands_run(page: Path, tmp_path: Path) -> None:
    run_commands(page, tmp_path, sparse2d='"$@"')


def test_what_a_new_user_runs_first(tmp_path: Path) -> None:
    run_commands(
        ROOT / "README.md",
        tmp_path,
        sparse2d='"$@" $(case "$1" in run|sweep) echo --launches 1;; esac)',
    )


def run_commands(page: Path, tmp_path: Path, sparse2d: str) -> None:
    """Runs a page's script; ``sparse2d`` is what the shell makes of that command's arguments."""
    script = "\n".join(line for line in lines_of(page) if not SETTING.match(line))
    if not script.strip():
        pytest.skip("shows set-up only")
    # Paths on the page are relative to the repository; records must not go there.
    if page in IN_A_COPY:
        root = copy_checkout(tmp_path / "copy")
    else:
        root = tmp_path
        for name in ("workloads", "docs", "reference_impl"):
            (root / name).symlink_to(ROOT / name)
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "sparse2d").write_text(f"#!/bin/sh\nexec {sys.executable} -m suite.cli.main {sparse2d}\n")
    (commands / "sparse2d").chmod(0o755)
    (commands / "asv").write_text(f'#!/bin/sh\nexec {sys.executable} -m asv "$@"\n')
    (commands / "asv").chmod(0o755)
    (commands / "python").symlink_to(sys.executable)
    path = str(root if page in IN_A_COPY else ROOT)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=root,
        env=os.environ
        | {"PATH": f"{commands}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        | {"PYTHONPATH": path, "ASV_PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=1200,  # a guard against a hang, far above what the commands take
    )
    assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = set(
        re.findall(r"\bmake ([a-z-]+)\b", " ".join(re.findall(r"`[^`]+`|^make.*$", page.read_text(), re.M)))
    )
    assert shown <= targets


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
