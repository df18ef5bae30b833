from pathlib import Path

import sparkwright as sw
from sparkwright_widgets._offline_html import outside_resources

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"
KEYS = {
    *("accuracy", "examples_per_second", "workers", "seconds", "start_seconds"),
    *("model", "run_report"),
}


def test_two_workers_learn_to_classify_digits(results):
    assert results.keys() == KEYS
    assert results["workers"] == 2
    assert results["accuracy"] > 0.95
    assert results["examples_per_second"] > 0
    assert 0 < results["start_seconds"] < results["seconds"]


def test_notebook_defaults_to_50_epochs():
    # About 10 to 20 s on two cores; other tests set fewer epochs.
    assert '\\"SPARKWRIGHT_DEMO_EPOCHS\\", 50)' in NOTEBOOK.read_text()


def test_the_saved_model_can_be_loaded(results):
    model = sw.load_model(results["model"])
    assert model.count_params() == 431_080
    assert model.optimizer.iterations.numpy() > 0  # training can go on


def test_the_report_needs_no_network_and_no_code(html):
    assert outside_resources(html) == []
    assert "from IPython" not in html
    for text in (
        "<strong>Result: 9",  # the verdict on top, written by the last cell
        "Loss curve of 2 workers over 345 steps",  # the live panel as it ended
        "Configuration of the run",
        "Every loaded weight is equal",
        "Processor cores",
    ):
        assert text in html, text


def test_run_has_its_own_report(results):
    html = Path(results["run_report"]).read_text()
    assert outside_resources(html) == []
    assert "ParameterAveragingTrainingMaster" in html
    assert f"{results['accuracy']:.4f}" in html
