from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook

FOLDER = Path(__file__).parent
BEGIN = """
import asyncio, sys
sys.path.insert(0, {folder!r})
import fake_run
from sparkwright_widgets.display import panel_for
from sparkwright_widgets import compare_runs
from sparkwright_widgets.display import settle
run = fake_run.FakeRun()
run.begin(epochs={epochs}, rounds=10, steps_per_s=400)
while len(run.log) < 20:
    await asyncio.sleep(0.02)
"""
SHOW = "display(panel_for(run))\nfor _ in range(20):\n    await asyncio.sleep(0.02)"
END = "while not run.finished:\n    await asyncio.sleep(0.02)\nsettle()\ncompare_runs([run, run])"


def executed(*cells):
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    return notebook


def exported(notebook, *, with_state):
    if not with_state:
        notebook.metadata.pop("widgets", None)  # as JupyterLab saves it
    html, _ = HTMLExporter().from_notebook_node(notebook)
    return html


@pytest.mark.thorough
@pytest.mark.parametrize("epochs", [400, 2], ids=["in mid-run", "afterwards"])
def test_saved_notebook_can_be_exported_and_shows_run_progress(epochs):
    ends = [END] if epochs == 2 else []
    notebook = executed(BEGIN.format(folder=str(FOLDER), epochs=epochs), SHOW, *ends)
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    assert all(output.output_type in ("display_data", "execute_result") for output in outputs)
    assert exported(notebook, with_state=True)
    html = exported(notebook, with_state=False)
    assert "LeNet on handwritten digits" in html
    assert "Loss curve of 2 workers over" in html
    assert "Loading widget" not in html
    if epochs == 2:
        assert "Trained for all epochs." in html
        assert html.count("Loss curves of 2 runs.") >= 1
        assert "accuracy 0." in html
    else:
        assert "The result appears here when the run ends." in html
