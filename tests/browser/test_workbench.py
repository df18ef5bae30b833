"""The workbench in JupyterLab on real Spark, by clicks and keys, from data to a saved model."""

import re

import nbformat
import pytest
from tests.browser.conftest import SCREENSHOTS
from tests.browser.test_quickstart_lab import COLOURED

pytestmark = [pytest.mark.browser, pytest.mark.spark, pytest.mark.slow]

CODE = """\
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import sparkwright as sw
from sparkwright_widgets import Workbench
experiment = sw.Experiment(title="Handwritten digits", data=sw.data.DataSource(partitions=5))
bench = Workbench(experiment=experiment)
bench"""


@pytest.fixture
def open_bench(lab, tmp_path):
    def open_bench(code=CODE, **options):
        notebook = nbformat.v4.new_notebook()
        notebook.cells = [nbformat.v4.new_code_cell(source) for source in (code, "after = 1")]
        path = tmp_path / "workbench.ipynb"
        nbformat.write(notebook, path)
        page = lab(path, **options)
        page.run_all()
        button(page, "1 Data").wait_for(timeout=60_000)
        return page

    return open_bench


def button(page, name):
    return page.page.get_by_role("button", name=name, exact=False)


def section(page, number):
    return page.page.locator(".sparkwright-section").nth(number - 1)


def inside(page, number):
    return section(page, number).locator(".sparkwright-part").first


def summary(page, number):
    return section(page, number).locator(".sparkwright-section-summary").first


def wait_for_summary(page, number, text, timeout_s=30):
    summary(page, number).get_by_text(text).wait_for(timeout=1000 * timeout_s)


def open_step(page, name):
    button(page, name).click()
    button(page, name).scroll_into_view_if_needed()


def photograph(page, name, *, number=None):
    """A picture of one step, or of the page, for the documents."""
    if number is None:
        page.screenshot(f"workbench-{name}")
        return
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    seen = page.page.viewport_size
    page.page.set_viewport_size({**seen, "height": 2400})  # all of the step at once
    section(page, number).screenshot(path=SCREENSHOTS / f"workbench-{name}.png")
    page.page.set_viewport_size(seen)


def test_from_data_to_a_saved_model_without_code(open_bench):
    page = open_bench(height=1000)

    # Data: Load starts Spark, in the background.
    inside(page, 1).get_by_role("button", name=re.compile(r"\bLoad$")).click()
    wait_for_summary(page, 1, "examples", timeout_s=90)
    photograph(page, "data", number=1)

    # Network: break it and see where; Train says why it cannot start.
    open_step(page, "2 Network")
    wait_for_summary(page, 2, "431,080 parameters")
    shape = inside(page, 2).get_by_label("Shape")
    shape.fill("3, 3, 1")
    wait_for_summary(page, 2, "Row 2")
    photograph(page, "broken", number=2)
    open_step(page, "5 Train")
    start = inside(page, 5).get_by_role("button", name=re.compile(r"\bStart$"))
    inside(page, 5).get_by_text("Start is disabled").wait_for()
    assert start.is_disabled()
    shape.fill("28, 28, 1")
    wait_for_summary(page, 2, "431,080 parameters")
    photograph(page, "network", number=2)

    # Training master, by keys.
    open_step(page, "3 Training master")
    after = inside(page, 3).get_by_label("Average after")
    after.click()
    page.page.keyboard.press("Control+A")
    page.page.keyboard.type("10")
    wait_for_summary(page, 3, "every 10 minibatches")
    photograph(page, "master", number=3)

    # Partitions: what a repartition would do.
    open_step(page, "4 Partitions")
    inside(page, 4).get_by_role("button", name="Count rows and labels").click()
    inside(page, 4).get_by_text("nobody has looked at labels").wait_for(state="detached")
    inside(page, 4).get_by_label("Strategy").select_option("approximate_balanced")
    wait_for_summary(page, 4, "approximate balanced")
    photograph(page, "partitions", number=4)
    for name in ("1 Data", "2 Network", "3 Training master", "4 Partitions"):
        button(page, name).click()

    # Train; the page is loaded anew while the run goes on; then stop.
    inside(page, 5).get_by_label("Epochs").fill("2000")
    start.click()
    page.page.wait_for_function(f"() => ({COLOURED})() > 300", timeout=120_000)
    wait_for_summary(page, 5, "epoch")
    page.save()
    page.open()
    page.page.wait_for_function(f"() => ({COLOURED})() > 300", timeout=60_000)
    button(page, "1 Data").scroll_into_view_if_needed()
    photograph(page, "training")
    inside(page, 5).get_by_role("button", name=re.compile(r"\bStop$")).click()
    wait_for_summary(page, 5, "stopped after")

    # Evaluate.
    open_step(page, "6 Evaluate")
    inside(page, 6).get_by_role("button", name=re.compile(r"\bEvaluate$")).click()
    wait_for_summary(page, 6, "1 evaluated", timeout_s=60)
    inside(page, 6).locator("svg").first.wait_for()
    photograph(page, "evaluation", number=6)
    button(page, "6 Evaluate").click()

    # Save, and load what was saved.
    open_step(page, "7 Models")
    store = inside(page, 7)
    store.get_by_role("button", name=re.compile(r"\bSave$")).click()
    tick = store.get_by_role("checkbox", name=re.compile("lenet"))
    tick.wait_for(timeout=60_000)
    tick.check()
    store.get_by_role("button", name=re.compile(r"\bLoad$")).click()
    wait_for_summary(page, 6, "lenet.keras is in hand", timeout_s=60)
    photograph(page, "models", number=7)

    # The experiment is what was chosen.
    chosen = "e.master.averaging_frequency, e.epochs, e.master.repartition_strategy"
    text = page.in_kernel(f"e = bench.experiment; print({chosen})")
    assert text == "10 2000 approximate_balanced"


def test_the_workbench_fits_a_narrow_dark_page(open_bench):
    page = open_bench(width=420, height=900)
    page.set_theme("JupyterLab Dark")
    for name in ("1 Data", "2 Network", "3 Training master", "5 Train"):
        if name != "1 Data":
            open_step(page, name)
        inside(page, int(name[0])).wait_for()
        photograph(page, f"narrow-{name[2:].lower().replace(' ', '-')}")
        wide = page.page.evaluate(
            "() => [...document.querySelectorAll('.sparkwright-part')].some("
            "(part) => part.scrollWidth > part.clientWidth + 1)"
        )
        assert not wide, f"{name} is wider than the page"
        button(page, name).click()
