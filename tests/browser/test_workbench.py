"""The workbench in real JupyterLab on real Spark, by clicks and keys, from data to a saved model."""

import re

import nbformat
import pytest
from tests.browser.test_quickstart_lab import COLOURED

pytestmark = [pytest.mark.browser, pytest.mark.spark, pytest.mark.slow]

CODE = """\
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
from sparkwright_widgets import Workbench
bench = Workbench()
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


def test_from_data_to_a_saved_model_without_code(open_bench):
    page = open_bench(height=1000)

    # Data: Load starts Spark, in the background.
    inside(page, 1).get_by_role("button", name=re.compile(r"\bLoad$")).click()
    wait_for_summary(page, 1, "examples", timeout_s=90)
    page.screenshot("workbench-data")

    # Network: break it and see where.
    open_step(page, "2 Network")
    wait_for_summary(page, 2, "431,080 parameters")
    shape = inside(page, 2).get_by_label("Shape")
    shape.fill("3, 3, 1")
    wait_for_summary(page, 2, "Row 2")
    open_step(page, "5 Train")
    start = inside(page, 5).get_by_role("button", name=re.compile(r"\bStart$"))
    assert start.is_disabled()
    inside(page, 5).get_by_text("Start is disabled").wait_for()
    page.screenshot("workbench-broken")
    shape.fill("28, 28, 1")
    wait_for_summary(page, 2, "431,080 parameters")

    # Training master, by keys.
    open_step(page, "3 Training master")
    after = inside(page, 3).get_by_label("Average after")
    after.click()
    page.page.keyboard.press("Control+A")
    page.page.keyboard.type("10")
    wait_for_summary(page, 3, "every 10 minibatches")
    page.screenshot("workbench-master")

    # Partitions: what a repartition would do.
    open_step(page, "4 Partitions")
    inside(page, 4).get_by_role("button", name="Count rows and labels").click()
    inside(page, 4).get_by_text("Label").first.wait_for()
    page.screenshot("workbench-partitions")

    # Train, and stop.
    inside(page, 5).get_by_label("Epochs").fill("200")
    start.click()
    page.page.wait_for_function(f"() => ({COLOURED})() > 300", timeout=120_000)
    wait_for_summary(page, 5, "epoch")
    button(page, "5 Train").scroll_into_view_if_needed()
    page.screenshot("workbench-training")
    inside(page, 5).get_by_role("button", name=re.compile(r"\bStop$")).click()
    wait_for_summary(page, 5, "stopped after")

    # Evaluate.
    open_step(page, "6 Evaluate")
    inside(page, 6).get_by_role("button", name=re.compile(r"\bEvaluate$")).click()
    wait_for_summary(page, 6, "1 evaluated", timeout_s=60)
    inside(page, 6).locator("svg").first.wait_for()
    button(page, "6 Evaluate").scroll_into_view_if_needed()
    page.screenshot("workbench-evaluation")

    # Save and load.
    open_step(page, "7 Models")
    inside(page, 7).get_by_role("button", name=re.compile(r"\bSave$")).first.click()
    inside(page, 7).get_by_text(".keras").first.wait_for(timeout=30_000)
    page.screenshot("workbench-models")

    # The experiment is what was chosen.
    text = page.in_kernel(
        "print(bench.experiment.master.averaging_frequency, bench.experiment.epochs)"
    )
    assert text == "10 200"
