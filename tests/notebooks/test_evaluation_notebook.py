"""The notebook about evaluation, executed from top to bottom."""

import re
from pathlib import Path

import pytest
from sklearn.datasets import load_breast_cancer

from sparkwright_widgets._offline_html import outside_resources

pytestmark = [pytest.mark.notebook, pytest.mark.spark]
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "07_evaluation.ipynb"
TEST, MALIGNANT, OTHERS = 205, 87, 142  # tumors, those of them malignant; people


def test_early_stopping_ends_training(results):
    assert results["workers"] == 2
    assert results["stopped_by"] == "patience"
    assert 10 < results["best_epoch"] <= results["epochs"] < 60


def test_evaluations_of_one_pass_count_the_same_examples(results):
    confusion = results["confusion"]
    assert results["examples"] == [TEST] * 3
    assert [sum(row) for row in confusion] == [TEST - MALIGNANT, MALIGNANT]
    assert results["accuracy"] == (confusion[0][0] + confusion[1][1]) / TEST > 0.88
    assert 0 < results["calibration_error"] < 0.12
    assert 0 < results["brier_score"] < 0.1


def test_cost_on_misses_increases_recall_and_false_positives(results):
    rules = {rule["rule"]: rule for rule in results["rules"]}
    half, priced = rules["one half"], rules["a miss costs ten alarms"]
    assert priced["missed"] < half["missed"]
    assert priced["false alarms"] > half["false alarms"]
    careful = results["careful"]
    assert [careful[1][0], careful[0][1]] == [priced["missed"], priced["false alarms"]]
    assert rules["missed none"]["threshold"] < 0.5


def test_worst_errors_are_found_in_the_table(results):
    assert len(results["worst"]) == 5
    names = load_breast_cancer().target_names[load_breast_cancer().target]
    for patient, taken_for in results["worst"].items():
        assert {names[int(patient) - 1], taken_for} == {"benign", "malignant"}


def test_two_metrics_inform_less_than_five(results):
    five, two = results["auc"]
    assert 0.9 < two < five - 0.005
    assert five > 0.96
    compared = results["compared"]
    assert list(compared) == ["five numbers", "two numbers"]
    assert compared["five numbers"]["accuracy"] == results["accuracy"]


def test_results_are_deserialized_and_merged(results):
    assert results["read_back"] is True
    assert results["adds_up"] is True


def test_regression_metrics_are_in_the_units_of_the_label(results):
    assert results["people"] == OTHERS
    assert 35 < results["regression"]["mean absolute error"] < 60
    assert 0.3 < results["regression"]["R²"] < 0.7


def test_sql_query_agrees_with_the_evaluation(results):
    benign, malignant = results["sql"]
    assert [benign["diagnosis"], malignant["diagnosis"]] == ["benign", "malignant"]
    assert [benign["tumors"], malignant["tumors"]] == [TEST - MALIGNANT, MALIGNANT]
    above = [benign["above one half"], malignant["above one half"]]
    assert above == [row[1] for row in results["confusion"]]
    assert benign["mean"] < 0.2 < 0.7 < malignant["mean"]


@pytest.mark.parametrize(
    ("caption", "times", "has_dots"),
    [
        (r"\d+ of 205 correct \(\d\d\.\d%\)", 2, False),  # the confusion matrix of each network
        (r"AUC 0\.9\d+ \(95% interval", 2, False),
        (r"Average precision 0\.\d+ \(95% interval", 2, False),
        (
            r"(P|On average, p)robabilities .*The class-wise calibration error \(.*\) is 0\.",
            1,
            False,
        ),
        (r"On the gray line predictions are right", 1, True),
        (r"Predictions are on average [\d.]+ too", 1, True),
    ],
)
def test_the_report_shows_each_figure_with_its_caption(html, caption, times, has_dots):
    figures = re.findall(r"<figure>(.*?)<figcaption>(.*?)</figcaption>", html, re.DOTALL)
    found = [drawing for drawing, text in figures if re.match(caption, text)]
    assert len(found) == times
    for drawing in found:
        assert drawing.startswith("<svg")
        assert "<image" in drawing or not has_dots  # many dots are pixels


def test_the_report_shows_the_table_before_training_and_both_networks(html, results):
    first = re.search(r'aria-label="First rows".*?<table(.*?)</table>', html, re.DOTALL)
    assert first is not None
    heads = re.findall(r'<th[^>]*scope="col"[^>]*>(.*?)</th>', first[1])
    assert heads[:2] == ["patient", "radius"]
    assert heads[-1] == "diagnosis (label)"
    compared = re.search(r'aria-label="Comparison".*?<table(.*?)</table>', html, re.DOTALL)
    assert compared is not None
    accuracies = {name: found["accuracy"] for name, found in results["compared"].items()}
    for (name, accuracy), auc in zip(accuracies.items(), results["auc"], strict=True):
        row = re.search(rf"<tr><th[^>]*>{name}</th>(.*?)</tr>", compared[1], re.DOTALL)
        assert row is not None
        assert f"{accuracy:.4f}" in row[1]
        assert f"{auc:.4f}" in row[1]


def test_the_report_has_its_result_on_top_and_needs_no_network(html, results):
    assert f"<strong>Result: {results['accuracy']:.1%} of {TEST} test tumors" in html
    assert "Matthews correlation" in html
    assert outside_resources(html) == []
    assert "from IPython" not in html
