"""The quickstart, executed from top to bottom as `make demo` does it."""

from pathlib import Path

import nbformat
import pytest

import sparkwright as sw
from sparkwright_widgets._offline_html import outside_resources

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"
KEYS = {"accuracy", "examples_per_second", "workers", "seconds", "start_seconds", "model"}


@pytest.mark.spark
def test_two_workers_learn_to_read_digits(results):
    assert results.keys() == KEYS
    assert results["workers"] == 2
    assert results["accuracy"] >= 0.97
    assert results["examples_per_second"] > 0
    assert 0 < results["start_seconds"] < results["seconds"]


@pytest.mark.spark
def test_the_saved_model_can_be_loaded(results):
    model = sw.load_model(results["model"])
    assert model.count_params() == 431_080
    assert model.optimizer.iterations.numpy() > 0  # training can go on


@pytest.mark.spark
def test_the_report_needs_no_network_and_no_code(reports):
    html = (reports / "quickstart.html").read_text()
    assert outside_resources(html) == []
    assert "import sparkwright" not in html
    for text in (
        "<strong>Result: 9",  # the verdict on top, written by the last cell
        "Before: as the data came",
        "After: one partition for each worker",
        "Loss curve of 2 workers over 345 steps",  # the live panel as it ended
        "Confusion matrix.",
        "Configuration of the run",
        "every weight is the same",
        "Processor cores",
    ):
        assert text in html, text


def test_the_notebook_is_kept_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.outputs for cell in code] == [[]] * len(code)
    assert {cell.execution_count for cell in code} == {None}
    assert "widgets" not in notebook.metadata
    assert notebook.metadata.kernelspec.name == "python3"
