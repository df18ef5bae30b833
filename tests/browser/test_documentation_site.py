"""The site of `make docs`: it needs no network, fits narrow pages, and searches."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.browser.conftest import SCREENSHOTS

pytestmark = pytest.mark.browser

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


@pytest.fixture(params=[(1280, "light"), (420, "light"), (420, "dark")], ids=str)
def page(chromium, request):
    width, scheme = request.param
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    yield context.new_page()
    context.close()


def test_pages_fit_and_request_nothing_from_elsewhere(site, page, request):
    urls = []
    page.on("request", lambda sent: urls.append(sent.url))
    failed = []
    page.on("requestfailed", lambda sent: failed.append(sent.url))
    for name in PAGES:
        page.goto((site / name).as_uri(), wait_until="networkidle")
        overflow = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        kind = request.node.callspec.id.translate(str.maketrans("(', )", "  -  ")).replace(" ", "")
        page.screenshot(path=SCREENSHOTS / f"site-{Path(name).stem}-{kind}.png")
        assert overflow == 0, name
    assert failed == []
    assert len(urls) > len(PAGES)
    assert [url for url in urls if not url.startswith(("file:", "data:", "blob:"))] == []


def test_search_finds_an_option_without_a_server(site, chromium):
    page = chromium.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto((site / "reference" / "masters.html").as_uri(), wait_until="networkidle")
    # The page searches when a key is released, which `fill` does not do.
    page.locator(".md-search__input").press_sequentially("averaging_frequency")
    page.wait_for_selector(".md-search-result__link", timeout=20_000)
    assert "averaging_frequency" in page.inner_text(".md-search-result__list")
    page.context.close()
