import re

from sparkwright_widgets._offline_html import outside_resources

NOTEBOOK = "04_sequences.ipynb"


def test_two_workers_classify_charts(results):
    assert results["workers"] == 2
    assert results["examples"] == 120
    assert results["accuracy"] >= 0.95


def test_accuracy_increases_with_unmasked_steps(results):
    share = {int(steps): found for steps, found in results["accuracy_by_steps"].items()}
    assert list(share) == [10, 20, 30, 40, 50, 60]
    assert share[10] < 0.7 < 0.85 < share[50]
    assert share[60] == results["accuracy"]


def test_the_report_shows_figures_and_results(html, results):
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", html, re.DOTALL)
    for caption in ("A chart of each kind", "correct (", "by the number of steps seen"):
        assert any(caption in found for found in captions), caption
    assert f"<strong>Result: {results['accuracy']:.1%} of 120 test charts" in html
    assert "train/kinds/0.csv, lines=1: " in html
    assert "import sparkwright" not in html


def test_the_report_of_the_run_needs_no_network_and_has_the_evaluation(reports, results):
    report = (reports / "sequences-run.html").read_text()
    assert outside_resources(report) == []
    assert f"{round(results['accuracy'] * 120)} of 120 correct" in report
    assert "GRU" in report
