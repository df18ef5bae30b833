"""The quickstart in real JupyterLab, on real Spark: the live plot, Stop, and the kernel's ■.

`make notebooks` runs it to its end.
"""

import time
from pathlib import Path

import nbformat
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"

# The panel of the run; the other widgets are panels too.
LIVE = ".sparkwright-panel:not(.sparkwright-part)"
# Takes every slot that Spark has: hangs if a run still holds one.
JOB = "print(sum(spark.sparkContext.parallelize(range(10), workers).collect()))"


@pytest.fixture
def long_quickstart(tmp_path):
    """The notebook with 2000 epochs, and the number of the cell that makes the network."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (network,) = [i for i, cell in enumerate(notebook.cells) if "sw.networks.lenet(" in cell.source]
    (training,) = [cell for cell in notebook.cells if "network.start(" in cell.source]
    assert "epochs=epochs" in training.source
    training.source = training.source.replace("epochs=epochs", "epochs=2000")
    nbformat.write(notebook, tmp_path / NOTEBOOK.name)
    return tmp_path / NOTEBOOK.name, network


def outputs(page, text):
    return page.page.locator(".jp-OutputArea-output").get_by_text(text).first


def wait_for_state(page, word):
    page.page.locator(f"{LIVE} .sparkwright-badge", has_text=word).wait_for(timeout=120_000)


@pytest.mark.timeout(600)
def test_the_quickstart_draws_its_curve_stops_and_is_interrupted(lab, long_quickstart):
    """Only JupyterLab has a button Stop beside a cell that waits, and the ■ of its kernel.

    Two runs in one session: until Stop, and until the kernel is interrupted.
    """
    path, network = long_quickstart
    page = lab(path)
    page.run_all()
    wait_for_state(page, "Training")
    page.wait_for_curve()
    page.page.get_by_role("button", name="Stop").click()
    wait_for_state(page, "Stopped")
    # `await run` returned, and the cells below it went on with the average.
    outputs(page, "The training is stopped").wait_for()
    outputs(page, "Result: ").wait_for()
    page.wait_idle(60)
    assert page.in_kernel("print(run.status.state, network.model is model)") == "stopped True"
    assert float(page.in_kernel("print(evaluation.accuracy)")) > 0.5
    assert page.in_kernel(JOB) == "45"
    assert page.page.locator('[data-mime-type="application/vnd.jupyter.stderr"]').count() == 0

    page.page.evaluate(
        "(network) => { jupyterapp.shell.currentWidget.content.activeCellIndex = network;"
        " void jupyterapp.commands.execute('notebook:run-all-below'); }",
        network,
    )
    wait_for_state(page, "Training")
    page.wait_for_curve()
    began_s = time.monotonic()
    page.interrupt()
    outputs(page, "RunInterrupted").wait_for()
    took_s = time.monotonic() - began_s
    outputs(page, "the model holds the average after averaging").wait_for()
    assert took_s < 5
    wait_for_state(page, "Stopped")
    page.wait_idle(30)
    assert page.in_kernel("print(run.status.state, run.finished)") == "stopped True"
    assert page.in_kernel(JOB) == "45"
    assert float(page.in_kernel("print(network.evaluate(test).accuracy)")) > 0.5
