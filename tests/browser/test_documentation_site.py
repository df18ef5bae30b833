import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("index.html", "training-masters.html", "reference/masters.html", "notebooks/03_csv.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])
def test_pages_fit_and_request_nothing_from_elsewhere(site, open_file, width, scheme):
    page = open_file(site / PAGES[0], width=width, scheme=scheme)
    failed = []
    page.on("requestfailed", lambda sent: failed.append(sent.url))
    for name in PAGES:
        page.goto((site / name).as_uri(), wait_until="networkidle")
        assert failed == []
        overflow = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert overflow == 0, name


def test_search_finds_an_option_without_a_server(site, open_file):
    page = open_file(site / "reference" / "masters.html")
    # The page searches when a key is released, which `fill` does not do.
    page.locator(".md-search__input").press_sequentially("averaging_frequency")
    page.wait_for_selector(".md-search-result__link", timeout=20_000)
    assert "averaging_frequency" in page.inner_text(".md-search-result__list")
