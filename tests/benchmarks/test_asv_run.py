"""asv itself on a copy of this checkout: `make bench` in its smallest size, the pages, and a browser.

Three launches of ``smoke`` in all, half a minute; what takes longer is in ``test_asv_slow.py``.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.request
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import matplotlib.image
import pytest

from suite import store
from suite.metrics import METRICS
from tests.helpers.box import within
from tests.helpers.checkout import copy_checkout, git
from tests.helpers.ports import free_port

#: A guard against a hang, far above what any of it takes.
HANG_S = 300


@dataclass(frozen=True)
class Checkout:
    """A copy of the project, and a home of its own for what asv knows about the machine."""

    root: Path
    home: Path

    def python(
        self, *arguments: str, hang_s: float = HANG_S, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """A module of the copy, run in it."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SPARSE2D_", "PYTHONPATH"))}
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.root,
            env=inherited | {"HOME": str(self.home), "SPARSE2D_ASV_SIZE": "smoke"} | variables,
            capture_output=True,
            text=True,
            timeout=hang_s,
            check=False,
        )

    @property
    def commit(self) -> str:
        return git(self.root, "rev-parse", "HEAD")

    def results(self) -> dict[str, list[float | str | None]]:
        """What asv kept for the commit, in the order of the parameters' product; None where it failed."""
        (path,) = self.root.glob(f".asv/results/*/{self.commit[:8]}-*.json")
        kept = json.loads(path.read_text(), parse_constant=lambda _: "n/a")
        return {name: row[kept["result_columns"].index("result")] for name, row in kept["results"].items()}

    def records(self) -> dict[str, dict]:
        return json.loads((self.root / f".asv/records/{self.commit}.json").read_text())["configurations"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Checkout:
    folder = tmp_path_factory.mktemp("asv")
    (folder / "home").mkdir()
    (folder / "project").mkdir()
    return Checkout(copy_checkout(folder / "project"), folder / "home")


@pytest.fixture(scope="module")
def benched(checkout) -> subprocess.CompletedProcess[str]:
    # Weak scaling would take one more launch.
    return checkout.python("benchmarks.asv_run", "--bench", "^(?!weak_scaling)")


def test_it_ends_with_the_table_of_what_it_ran(checkout, benched):
    assert benched.returncode == 0, benched.stderr
    rows = [line.split() for line in benched.stdout.splitlines() if line.strip().startswith(("1D", "2D"))]
    assert [row[:2] for row in rows] == [["1D", "T=1"], ["1D", "T=2"], ["2D", "T=2"]]
    assert "smoke 2D T=2 M=2: " in benched.stderr, "progress is shown"
    # What is made here is ignored by git, so the checkout is not dirty for it.
    assert git(checkout.root, "status", "--porcelain") == ""


def test_every_result_comes_from_a_record(checkout, benched):
    results, records = checkout.results(), checkout.records()
    assert len(records) == 3
    record = store.read(checkout.root / records["smoke, strong scaling, T=2, 2D reference_2d M=2"]["record"])
    # T = 1, 2 times 1D, 2D: the last one is 2D at T = 2.
    for name, metric in (
        ("strong_scaling.smoke.track_step_ms", "step_ms"),
        ("communication.smoke.track_wire_bytes", "wire_bytes"),
        ("quality.smoke.track_auc_higher_is_better", "auc"),
    ):
        assert results[name][-1] == METRICS[metric].values(record)[0]
        assert len(results[name]) == 4
    assert record.environment.git_commit == checkout.commit
    assert "dirty_tree" not in record.environment.flags


def test_one_that_fails_shows_as_failed_with_the_reason(checkout, benched):
    before = checkout.results()
    done = checkout.python(
        "benchmarks.asv_run", "--bench", "looking", SPARSE2D_ASV_OPTIONS="--stall-timeout -1"
    )
    assert done.returncode == 3
    assert "Failed: smoke, strong scaling, T=2, 2D reference_2d M=2: bad_input" in done.stderr
    assert "stall_timeout" in done.stderr
    after = checkout.results()
    # T = 1, 2 times 1D, 2D.
    assert after["looking.smoke.track_profiling_cost"] == [None, "n/a", None, None]
    del after["looking.smoke.track_profiling_cost"], before["looking.smoke.track_profiling_cost"]
    assert after == before, "what was not asked for stays"
    log = (checkout.root / ".asv/asv.log").read_text()
    assert "stall_timeout" in log
    assert "Traceback" not in log


def test_a_wrong_size_is_refused_before_anything(checkout):
    done = checkout.python("benchmarks.asv_run", SPARSE2D_ASV_SIZE="quik")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean quick?" in done.stderr


def test_a_copy_without_git_is_told_what_to_do(tmp_path):
    copy = copy_checkout(tmp_path)
    shutil.rmtree(copy / ".git")
    done = Checkout(copy, tmp_path).python("benchmarks.asv_run")
    assert done.returncode == 2
    assert "this is no git checkout" in done.stderr
    assert "sparse2d sweep" in done.stderr


def test_asv_shows_and_compares(checkout, benched):
    shown = checkout.python("asv", "show", "HEAD")
    assert shown.returncode == 0
    assert "components.smoke.track_exposed_ms" in shown.stdout
    compared = checkout.python("asv", "compare", "HEAD", "HEAD")
    assert compared.returncode == 0
    assert "memory.smoke.track_bytes(2, 2D reference_2d M=2, 'embedding_weights')" in compared.stdout


def test_asv_previews_the_pages(checkout, benched):
    assert checkout.python("asv", "publish").returncode == 0
    port = str(free_port())
    environment = os.environ | {"HOME": str(checkout.home)}
    command = [sys.executable, "-m", "asv", "preview", "--port", port]
    with subprocess.Popen(command, cwd=checkout.root, env=environment, stdout=subprocess.DEVNULL) as preview:
        try:
            url = f"http://127.0.0.1:{port}/index.json"
            assert within(HANG_S, lambda: preview.poll() is not None or _served(url))
            with urllib.request.urlopen(url) as answer:
                assert "strong_scaling.smoke.track_step_ms" in json.load(answer)["benchmarks"]
        finally:
            preview.terminate()


def _served(url: str) -> bool:
    try:
        with urllib.request.urlopen(url):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def page(checkout, benched):
    """``page(fragment, *options)``: what Chromium has to say of asv's pages, which are served here."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("no Chromium: ci/install-system-packages installs Debian's")
    made = checkout.python("benchmarks.asv_page")
    if made.returncode == 2 and "npm" in made.stderr:
        pytest.skip(f"no libraries for asv's pages: {made.stderr}")
    assert made.returncode == 0, made.stderr
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(checkout.root / ".asv/html"))
    handler.func.log_message = lambda *_: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def look(fragment: str, *options: str) -> str:
            command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,900",
                       f"--user-data-dir={checkout.home}/chromium", "--virtual-time-budget=10000", *options,
                       f"http://127.0.0.1:{server.server_port}/#{fragment}"]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True)
            return done.stdout

        yield look
        server.shutdown()


def test_the_page_lists_our_metrics(page):
    content = page("/", "--dump-dom")
    for title in (
        "smoke: samples_per_s (higher is better)",
        "smoke: step_ms (lower is better)",
        "smoke: AUC (higher is better)",
        "smoke: memory (lower is better)",
        "smoke: exposed: the step waited for it (lower is better)",
    ):
        assert title in content


@pytest.mark.parametrize(
    "figure", ["strong_scaling.smoke.track_step_ms", "communication.smoke.track_wire_bytes"]
)
def test_the_browser_draws_a_graph_with_1d_and_2d(figure, page, checkout, tmp_path):
    fragment = f"{figure}?x-axis=world_size"
    content = page(fragment, "--dump-dom")
    assert '<canvas class="flot-base"' in content
    legend = re.findall(r'class="legendLabel">([^<]*)<', content)
    assert [label.split("layout-")[1] for label in legend] == ["1D baseline_1d", "2D reference_2d M=2"]
    picture = tmp_path / "graph.png"
    page(fragment, f"--screenshot={picture}")
    # Lines and points in asv's colours, right of the buttons, where all else is grey but the legend.
    pixels = matplotlib.image.imread(picture)[105:800, 210:1290, :3].copy()
    pixels[:65, :400] = 1
    assert (pixels[..., 2] - pixels[..., 0] > 0.3).sum() > 100, "1D in blue, a line from T = 1 to T = 2"
    assert (pixels[..., 0] - pixels[..., 2] > 0.3).sum() > 5, "2D in red, a point at T = 2"
