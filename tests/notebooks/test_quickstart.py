"""The quickstart, executed from top to bottom as `make demo` does it."""

import re
from pathlib import Path

import pytest

import sparkwright as sw
from sparkwright_widgets._offline_html import outside_resources

pytestmark = [pytest.mark.notebook, pytest.mark.spark]

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"
KEYS = {
    *("accuracy", "examples_per_second", "workers", "seconds", "start_seconds"),
    *("model", "run_report"),
}


def test_two_workers_learn_to_classify_digits(results):
    assert results.keys() == KEYS
    assert results["workers"] == 2
    assert results["accuracy"] >= 0.97
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


def test_report_shows_the_same_as_the_widgets(html, results):
    # The data picker: one image of each class at least, and how often each occurs.
    labels = re.findall(r'<img alt="[^"]*, label (\d)"', html)
    assert set(labels) == set("0123456789")
    assert "all 1,797 images" in html
    # The preview of partitions, as the master will repartition them.
    assert "Repartition always, strategy balanced, 2 workers" in html
    assert re.search(r'aria-label="Now: Rows of \d+ partitions?', html)
    assert 'aria-label="After: Rows of 2 workers' in html
    # The network, with LeNet's first and largest layers.
    assert "8 layers, 431,080 parameters" in html
    assert re.search(r"24 x 24 x 20</td><td>520</td>", html)
    assert re.search(r"<td[^>]*>500</td><td>400,500</td>", html)
    # The evaluation, which agrees with the sentence on top.
    right = round(results["accuracy"] * 373)
    assert f"{right} of 373 correct ({results['accuracy']:.1%})" in html
    assert "The 12 examples with the highest loss, of 373." in html


def test_run_has_its_own_report(results):
    html = Path(results["run_report"]).read_text()
    assert outside_resources(html) == []
    assert "ParameterAveragingTrainingMaster" in html
    assert f"{results['accuracy']:.4f}" in html
