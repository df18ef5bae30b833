"""Reports in a real browser: nothing is fetched, nothing overflows, keys open the tables."""

import importlib.util
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from sparkwright.data import DataSet
from sparkwright.evaluation import ROC, Evaluation
from sparkwright_widgets._offline_html import offline_html
from sparkwright_widgets._reports._pdf import pdf_of
from sparkwright_widgets._reports._run_report import run_report_html

pytestmark = pytest.mark.browser

FAKE_RUN = Path(__file__).parents[1] / "widgets" / "fake_run.py"
SCREENSHOTS = Path(__file__).parents[2] / "reports" / "screenshots"
NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)

# The pictures that a screen reader would pass over, and how far the page is too wide.
LOOK = """() => ({
  nameless: [...document.querySelectorAll('img, svg')].filter((each) =>
    !each.closest('[aria-hidden="true"]')
    && !(each.getAttribute('alt') || each.getAttribute('aria-label'))).length,
  pictures: document.querySelectorAll('img, svg').length,
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
})"""


@pytest.fixture(scope="module")
def run_report():
    spec = importlib.util.spec_from_file_location("fake_run_of_reports", FAKE_RUN)
    fake = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fake)
    run = fake.FakeRun()
    for step in range(1, 41):
        for worker in range(2):
            loss = 2.2 * 0.95**step + worker / 20
            run.report(worker, step, loss, epoch=(step + 9) // 10)
    points = [
        fake.FakeValidation(
            epoch=e, step=10 * e, loss=2.0 * 0.6**e + 0.1, metrics={"accuracy": 1 - 0.5**e}
        )
        for e in range(1, 5)
    ]
    done = tuple(fake.FakeWorker(worker=w, state="done", steps=40, loss=0.3) for w in range(2))
    run.set(state="done", message="done", epoch=4, epochs=4, validation=points, workers=done)
    labels = np.arange(200) % 2
    scores = np.clip(labels * 0.4 + np.random.default_rng(0).random(200) * 0.6, 0, 1)
    evaluations = [
        Evaluation(["ant", "bee"]).updated(labels, np.stack([1 - scores, scores], axis=1)),
        ROC().updated(labels, scores),
    ]
    data = {"train": DataSet(np.zeros((200, 4), np.float32), labels)}
    return run_report_html(run, made_at=NOW, evaluations=evaluations, data=data)


@pytest.fixture
def site():
    """A server on this machine, and the paths that somebody fetched from it."""
    fetched = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            fetched.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", fetched
    server.shutdown()
    thread.join()
    server.server_close()


def open_page(chromium, path, *, width, dark=False):
    scheme = "dark" if dark else "light"
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(path.as_uri(), wait_until="networkidle")
    return page


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (420, False), (420, True)])
def test_a_report_fits_any_page_and_every_picture_has_a_text(
    chromium, run_report, tmp_path, width, dark
):
    path = tmp_path / "run.html"
    path.write_text(run_report, encoding="utf-8")
    page = open_page(chromium, path, width=width, dark=dark)
    found = page.evaluate(LOOK)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    name = f"report-{width}{'-dark' if dark else ''}.png"
    page.screenshot(path=SCREENSHOTS / name, full_page=True)
    page.context.close()
    assert found["nameless"] == 0
    assert found["pictures"] >= 6
    assert found["overflow"] == 0


def test_a_table_opens_by_keys_alone(chromium, run_report, tmp_path):
    path = tmp_path / "run.html"
    path.write_text(run_report, encoding="utf-8")
    page = open_page(chromium, path, width=1280)
    table = page.get_by_role("region", name="Loss by epoch")
    assert not table.is_visible()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    page.keyboard.press("Enter")
    assert table.is_visible()
    assert "★ best" in table.inner_text()
    page.context.close()


def test_nothing_is_fetched_whatever_the_notebook_holds(chromium, tmp_path, site):
    url, fetched = site
    html = (
        f'<link rel="stylesheet" href="{url}/a.css"><script src="{url}/a.js"></script>'
        f"<script>fetch('{url}/fetched'); new Image().src = '{url}/made.png';"
        "document.body.dataset.ran = 'yes';</script>"
        f"<style>p {{ background: url({url}/b.png) }} @import '{url}/b.css';</style>"
        f'<iframe src="{url}/frame.html"></iframe><img src="{url}/c.png">'
    )
    notebook = new_notebook(
        cells=[
            new_markdown_cell(f"# T\n\n![far]({url}/d.png)"),
            new_code_cell("1", outputs=[new_output("display_data", data={"text/html": html})]),
        ]
    )
    text = offline_html(notebook, name="t", made_at=NOW, took="", folder=tmp_path)
    path = tmp_path / "notebook.html"
    path.write_text(text, encoding="utf-8")
    page = open_page(chromium, path, width=1280)
    assert page.evaluate("document.body.dataset.ran") == "yes"
    assert page.evaluate(LOOK)["nameless"] == 0
    pdf_of(text)
    page.context.close()
    assert fetched == []


def test_a_report_is_printed_as_a_pdf_of_several_pages(chromium, run_report):
    printed = pdf_of(run_report)
    assert printed.startswith(b"%PDF-")
    assert printed.count(b"/Type /Page\n") >= 3
