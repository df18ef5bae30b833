"""The notebook of transfer learning, executed from top to bottom."""

from pathlib import Path

import pytest

from sparkwright_widgets._offline_html import outside_resources

pytestmark = [pytest.mark.notebook, pytest.mark.spark]
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "11_transfer_learning.ipynb"
SHORTER = {"epochs=8": "epochs=5"}


def test_second_task_gains_from_the_first_and_from_fine_tuning(results):
    assert results["workers"] == 2
    assert results["pretrained"] > 0.8
    assert results["frozen"] > 0.4  # by chance 0.2
    assert results["accuracy"] > max(0.8, results["frozen"])


def test_report_has_its_result_on_top_and_needs_no_network(html, results):
    sentence = f"<strong>Result: {results['accuracy']:.1%} of {results['examples']} test digits"
    assert sentence in html
    assert outside_resources(html) == []
    assert "import sparkwright" not in html
