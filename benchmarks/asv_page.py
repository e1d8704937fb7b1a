"""``make bench-page``: asv's pages of the results, which need no network to be looked at.

The pages that ``asv publish`` makes fetch jQuery, Flot and Bootstrap from the network each time they are
opened, and show nothing where there is none, as on many clusters. This publishes, and puts the same libraries
beside the pages. It takes them from npm, once, and keeps them in ``.asv/libraries``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from suite.cli.failures import BAD_INPUT, show_error
from suite.cli.streams import messages
from suite.errors import ConfigError
from workloads.asv_benchmarks.support.records import ROOT

LIBRARIES = ROOT / ".asv" / "libraries"
PAGES = ROOT / ".asv" / "html"
#: The versions that asv 0.6.6 asks for (the nearest on npm of stupidtable), and the file of each package
#: that stands in for a file of the page.
PACKAGES = (
    "blueimp-md5@2.19.0",
    "bootstrap@3.1.1",
    "flot@0.8.3",
    "flot-orderbars@1.0.0",
    "jquery@3.3.1",
    "stupid-table-plugin@1.1.3",
)
FILES: Mapping[str, str] = {
    "jquery-3.3.1.min.js": "jquery/dist/jquery.min.js",
    "jquery.flot.min.js": "flot/jquery.flot.js",
    "jquery.flot.time.min.js": "flot/jquery.flot.time.js",
    "jquery.flot.selection.min.js": "flot/jquery.flot.selection.js",
    "jquery.flot.categories.min.js": "flot/jquery.flot.categories.js",
    "jquery.flot.orderBars.js": "flot-orderbars/js/jquery.flot.orderBars.js",
    "stupidtable.min.js": "stupid-table-plugin/stupidtable.min.js",
    "md5.min.js": "blueimp-md5/js/md5.min.js",
    "bootstrap.min.js": "bootstrap/dist/js/bootstrap.min.js",
    "bootstrap.min.css": "bootstrap/dist/css/bootstrap.min.css",
}
#: An address of another host, with the check of what comes from there and the permission to ask.
_ELSEWHERE = re.compile(
    r'(?P<attribute>src|href)="https://[^"]*/(?P<file>[^"/]+)" integrity="[^"]*"'
    r' crossorigin="[^"]*"(?: referrerpolicy="[^"]*")?'
)


def main() -> int:
    """Publishes; returns the exit code."""
    published = subprocess.run([sys.executable, "-m", "asv", "publish"], cwd=ROOT, check=False)
    if published.returncode != 0:
        return published.returncode
    try:
        make_self_contained(PAGES, LIBRARIES)
    except ConfigError as error:
        show_error(error.report, messages())
        return BAD_INPUT
    messages().print(f"Pages: {PAGES.relative_to(ROOT)}; `asv preview` shows them.", markup=False)
    return 0


def make_self_contained(pages: Path, libraries: Path) -> None:
    """Puts the libraries of asv's pages beside them.

    Args:
        pages: what ``asv publish`` wrote.
        libraries: where npm's packages are, or are put.

    Raises:
        ConfigError: there is no npm, it fails, or the pages ask for a file that is not known here.
    """
    index = pages / "index.html"
    text = index.read_text(encoding="utf-8")
    asked = {match["file"] for match in _ELSEWHERE.finditer(text)}
    if unknown := sorted(asked - FILES.keys()):
        raise ConfigError(
            "asv",
            ", ".join(unknown),
            "this version's pages ask for files that are not known here.",
            "Install the version in constraints.txt, or add them to FILES in benchmarks/asv_page.py.",
        )
    packages = _packages(libraries)
    beside = pages / "libraries"
    beside.mkdir(exist_ok=True)
    for file in asked:
        shutil.copyfile(packages / FILES[file], beside / file)
    index.write_text(_ELSEWHERE.sub(r'\g<attribute>="libraries/\g<file>"', text), encoding="utf-8")


def _packages(libraries: Path) -> Path:
    packages = libraries / "node_modules"
    if all((packages / file).exists() for file in FILES.values()):
        return packages
    remedy = "Install npm and have it reach its registry once, or open the pages where there is a network."
    npm = shutil.which("npm")
    if npm is None:
        raise ConfigError("npm", None, "it is not installed.", remedy)
    libraries.mkdir(parents=True, exist_ok=True)
    command = [
        npm,
        "install",
        "--prefix",
        str(libraries),
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        *PACKAGES,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ConfigError("npm", " ".join(command[1:]), f"it fails: {done.stderr.strip()[-500:]}", remedy)
    return packages


if __name__ == "__main__":
    sys.exit(main())
