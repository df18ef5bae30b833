"""The notebook about CSV files, executed from top to bottom."""

import re
from pathlib import Path

import pytest

from sparkwright.data import TableSchema
from sparkwright_widgets._offline_html import outside_resources

pytestmark = [pytest.mark.notebook, pytest.mark.spark]
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "03_csv.ipynb"
TUMOURS, TEST, PEOPLE = 569, 114, 442  # in scikit-learn's tables; a fifth is kept back


def test_two_workers_learn_to_classify_tumors(results):
    assert results["workers"] == 2
    assert results["examples"] == TUMOURS
    assert results["classes"] == ["benign", "malignant"]
    assert results["accuracy"] > 0.93


def test_malformed_line_is_named_and_counted(results):
    assert results["skipped"] == {"wrong number of columns": 1}
    # The header, 142 tumors, and then the one that was added.
    assert results["message"].startswith("tumors/part-2.csv, line 144: each record must have 31")


def test_diabetes_regression_beats_predicting_the_mean(results):
    assert results["people"] == PEOPLE
    assert results["error"] < 0.85 * results["mean_error"]
    assert 0.3 < results["explained"] < 0.8
    assert results["features"][:4] == ["age", "sex=1", "sex=2", "bmi"]


def test_results_contain_a_valid_schema(results):
    schema = TableSchema.from_dict(results["schema"])
    assert schema.labels == {"labels": ("diagnosis",)}
    assert len(schema.feature_names()) == 30


@pytest.mark.parametrize(
    ("caption", "element", "marks"),
    [
        (r"Each column before and after normalization\.", "<use", 500),  # dots outside of the boxes
        (r"On the gray line predictions are right", "<image", 1),  # many dots are pixels
        (rf"\d+ of {TEST} correct", "<use", 1),
    ],
)
def test_the_report_shows_each_figure_with_its_caption(html, caption, element, marks):
    figures = re.findall(r"<figure>(.*?)<figcaption>(.*?)</figcaption>", html, re.DOTALL)
    found = [drawing for drawing, text in figures if re.match(caption, text)]
    assert len(found) == 1
    assert found[0].startswith("<svg")
    assert found[0].count(element) >= marks


def test_picker_stores_its_preview_and_code(html):
    assert re.search(r"Preview</span> <b>first \d+ of about \d+ rows", html)
    assert "diagnosis (label)" in html
    assert 'labels="diagnosis"' in html


def test_report_contains_the_threshold_and_baseline_of_the_panels(html):
    assert "Threshold on the score" in html
    assert "Better than always predicting the mean" in html


def test_the_report_has_its_result_on_top_and_needs_no_network(html, results):
    assert f"<strong>Result: {results['accuracy']:.1%} of {TEST} test tumors" in html
    assert "1 invalid line was skipped" in html
    assert outside_resources(html) == []
    assert "await run" not in html  # code is left out
