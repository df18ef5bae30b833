"""The quickstart in real JupyterLab, on real Spark: the live plot, Stop, and the kernel's ■."""

import json
import time
from pathlib import Path

import nbformat
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.spark, pytest.mark.slow]

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"

# The panel of the run; the other widgets are panels too.
LIVE = ".sparkwright-panel:not(.sparkwright-part)"
# Takes every slot that Spark has: hangs if a run still holds one.
JOB = "print(sum(spark.sparkContext.parallelize(range(10), workers).collect()))"


def index_of(notebook, text):
    (index,) = [i for i, cell in enumerate(notebook.cells) if text in cell.source]
    return index


def outputs(page):
    return page.page.locator(".jp-OutputArea-output")


def wait_for_state(page, word):
    page.page.locator(f"{LIVE} .sparkwright-badge", has_text=word).wait_for(timeout=120_000)


def train_for_long(page, notebook):
    """Train a new network for 2000 epochs in the same session, and run the cells below."""
    page.page.evaluate(
        "([network, training]) => { const { content } = jupyterapp.shell.currentWidget;"
        " const { sharedModel } = content.widgets[training].model;"
        " sharedModel.setSource(sharedModel.source.replace('epochs=epochs', 'epochs=2000'));"
        " content.activeCellIndex = network;"
        " void jupyterapp.commands.execute('notebook:run-all-below'); }",
        [index_of(notebook, "sw.networks.lenet("), index_of(notebook, "network.start(")],
    )
    wait_for_state(page, "Training")
    page.wait_for_curve()


@pytest.mark.timeout(600)
def test_the_quickstart_draws_its_curve_stops_and_is_interrupted(lab):
    """Three runs in one session: to the end, until Stop, until the kernel is interrupted."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    training = index_of(notebook, "network.start(")
    assert "epochs=epochs" in notebook.cells[training].source
    page = lab(NOTEBOOK)
    page.run_all()
    page.page.locator(LIVE).wait_for(timeout=120_000)
    page.wait_for_curve()
    wait_for_state(page, "Done")
    page.wait_idle(60)
    outputs(page).get_by_text("Result: ").wait_for()
    rows = page.in_kernel("print(len(run.log), run.history.loss.notna().sum())")
    assert rows == "2300 2300"
    results = json.loads((page.folder.parent / "reports" / "quickstart.json").read_text())
    assert results["accuracy"] >= 0.97
    assert page.page.locator('[data-mime-type="application/vnd.jupyter.stderr"]').count() == 0
    page.cell(training).scroll_into_view_if_needed()
    page.screenshot("quickstart-done")

    train_for_long(page, notebook)
    page.page.get_by_role("button", name="Stop").click()
    wait_for_state(page, "Stopped")
    # `await run` returned, and the cells below it went on with the average.
    outputs(page).get_by_text("The training is stopped").wait_for()
    page.wait_idle(60)
    assert page.in_kernel("print(run.status.state, network.model is model)") == "stopped True"
    assert float(page.in_kernel("print(evaluation.accuracy)")) > 0.5
    assert page.in_kernel(JOB) == "45"

    train_for_long(page, notebook)
    began_s = time.monotonic()
    page.interrupt()
    outputs(page).get_by_text("RunInterrupted").first.wait_for()
    took_s = time.monotonic() - began_s
    outputs(page).get_by_text("the model holds the last average").first.wait_for()
    assert took_s < 5
    wait_for_state(page, "Stopped")
    page.wait_idle(30)
    assert page.in_kernel("print(run.status.state, run.finished)") == "stopped True"
    assert page.in_kernel(JOB) == "45"
    assert float(page.in_kernel("print(network.evaluate(test).accuracy)")) > 0.5
