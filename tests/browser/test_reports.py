import importlib.util
from datetime import UTC, datetime

import numpy as np
import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from tests.browser.conftest import FAKE_RUN
from tests.widgets.test_saved_notebooks import BEGIN, SHOW, executed, exported

from sparkwright.data import DataSet
from sparkwright.evaluation import ROC, Evaluation, WorstExamples
from sparkwright_widgets._evaluation_blocks import evaluation_section
from sparkwright_widgets._offline_html import offline_html
from sparkwright_widgets._reports._pdf import pdf_of
from sparkwright_widgets._reports._run_report import run_report_html

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
def open_page(open_file, tmp_path):
    """`open_page(html, name, …)`: `open_file` of a file with this content."""

    def opened(html, name, **options):
        path = tmp_path / f"{name}.html"
        path.write_text(html, encoding="utf-8")
        return open_file(path, **options)

    return opened


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])
def test_report_fits_every_image_has_alt_text_and_tables_open_by_keys(
    open_page, run_report, width, scheme
):
    page = open_page(run_report, "report", width=width, scheme=scheme)
    found = page.evaluate(LOOK)
    assert found["nameless"] == 0
    assert found["pictures"] >= 6
    assert found["overflow"] == 0
    table = page.get_by_role("region", name="Loss by epoch")
    assert not table.is_visible()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    page.keyboard.press("Enter")
    assert table.is_visible()
    assert "★ best" in table.inner_text()


def test_report_fetches_no_resources_for_any_notebook(open_page, tmp_path):
    url = "http://127.0.0.1:9"
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
    page = open_page(text, "notebook", may_ask=True)
    fetched = []  # what the page's policy lets through
    page.route(f"{url}/**", lambda route: (fetched.append(route.request.url), route.abort()))
    page.reload(wait_until="networkidle")
    assert page.evaluate("document.body.dataset.ran") == "yes"
    assert page.evaluate(LOOK)["nameless"] == 0
    assert fetched == []


def test_a_report_is_printed_as_a_pdf_of_several_pages(chromium, run_report):
    printed = pdf_of(run_report)
    assert printed.startswith(b"%PDF-")
    assert printed.count(b"/Type /Page\n") >= 3


CURVES = """() => [...document.querySelectorAll('svg[aria-label*="Loss curve of"]')]
    .filter((each) => each.checkVisibility()).length"""


def test_an_exported_notebook_shows_the_curve_once_without_a_click(open_page):
    begin = BEGIN.format(folder=str(FAKE_RUN.parent), epochs=2)
    notebook = executed(
        begin, SHOW, "while not run.finished:\n    await asyncio.sleep(0.02)\nsettle()"
    )
    for name, with_state in (("executed", True), ("saved", False)):
        html = exported(notebook, with_state=with_state)
        page = open_page(html, f"exported-{name}", width=420, offline=True, may_ask=True)
        assert page.evaluate(CURVES) == 1, name


# Pairs of boxes that overlap, list numbers in view, and what may be split between pages.
CARDS = """() => {
  const cards = [...document.querySelectorAll('.sparkwright-worst-list > li')];
  const boxes = cards.map((card) => card.getBoundingClientRect());
  const overlap = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
    && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  return {
    cards: cards.length,
    overlapping: boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => overlap(a, b))).length,
    outside: cards.flatMap((card, i) => [...card.querySelectorAll(':not(svg *)')]
      .map((inner) => inner.getBoundingClientRect())
      .filter((box) => box.right > boxes[i].right + 1 || box.bottom > boxes[i].bottom + 1)).length,
    numbered: cards.filter((card) => getComputedStyle(card).listStyleType !== 'none').length,
    split: [...document.querySelectorAll('figure, tr, .sparkwright-worst-list > li')]
      .filter((each) => getComputedStyle(each).breakInside !== 'avoid').length,
  };
}"""


@pytest.mark.parametrize("width", [420, 1280])
def test_cards_do_not_overlap_and_are_printed_whole(open_page, width):
    names = ("a name of several words that is long", "x" * 80, "b")
    texts = np.array([f"{'word ' * 200}{'y' * 90}" for _ in range(9)], dtype=object)[:, None]
    shares = np.random.default_rng(0).dirichlet([1, 1, 1], 9)
    features = {"text": texts, "image": np.zeros((9, 40, 400)), "steps": np.ones((9, 50, 3))}
    labels, losses = np.arange(9) % 3, np.arange(9.0)
    options = {"count": 9, "class_names": {"kind": names}}
    worst = WorstExamples.of_rows(losses, features, {"kind": labels}, {"kind": shares}, **options)
    outputs = [
        new_output("display_data", data=block.mimebundle())
        for block in evaluation_section([worst, Evaluation().updated([0, 1], np.eye(2))])
    ]
    html, _ = HTMLExporter().from_notebook_node(
        new_notebook(cells=[new_code_cell("1", outputs=outputs)])
    )
    page = open_page(html, "worst", width=width, may_ask=True)
    for media in ("screen", "print"):
        page.emulate_media(media=media)
        found = page.evaluate(CARDS)
        is_split = found.pop("split")
        assert found == {"cards": 9, "overlapping": 0, "outside": 0, "numbered": 0}, media
        assert media == "screen" or not is_split
