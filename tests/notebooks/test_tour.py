import re

import nbformat

import sparkwright as sw

NOTEBOOK = "00_tour.ipynb"
PARAMETERS, TEST = 431_080, 176


def test_two_workers_learn_to_classify_digits(results):
    assert results["state"] == "done"
    assert results["workers"] == 2
    assert results["examples"] == TEST
    assert results["accuracy"] > 0.93
    assert 0 < results["start_seconds"] < results["seconds"]


def test_saved_network_and_experiment_can_be_loaded(results):
    assert sw.load_model(results["model"]).count_params() == PARAMETERS
    experiment = sw.Experiment.load(results["experiment"])
    assert experiment.title == "Handwritten digits"
    assert experiment.epochs == results["epochs"]
    assert experiment.network.build().count_params() == PARAMETERS


def test_saved_notebook_shows_the_final_state_of_each_widget(reports):
    notebook = nbformat.read(reports / "tour.ipynb", as_version=4)
    html = "".join(
        output.data.get("text/html", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data" in output
    )
    assert "Handwritten digits: current state" in html
    assert f"{PARAMETERS:,} parameters" in html
    assert re.search(r"<b>Train</b>: done after epoch (\d+) of \1", html)
    assert "<b>Evaluate</b>: 1 evaluated" in html
    assert "Loss curve of 2 workers" in html
    assert "Confusion matrix" in html


def test_the_report_has_its_result_on_top(html, results):
    assert f"<strong>Result: {results['accuracy']:.1%} of {TEST} test digits" in html
    assert "VBox(" not in html
