import re
from html import unescape

NOTEBOOK = "06_joins.ipynb"
SHORTER = {"epochs=10, validation=check": "epochs=5, validation=check"}


def test_joined_tables_give_higher_accuracy_than_either_table(results):
    assert results["workers"] == 2
    assert results["accuracy"]["both tables"] > 0.93
    assert results["accuracy"]["readings alone"] < 0.87
    assert results["accuracy"]["machines alone"] < 0.8


def test_unmatched_keys_are_named_and_counted(results, html):
    assert results["dropped"] == 12
    assert "every key must be in every source. Received: none in 'readings'" in unescape(html)
    assert "12 machines without readings are dropped." in html


def test_the_report_shows_figures_and_results(html, results):
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", html, re.DOTALL)
    assert any("correct (" in found for found in captions)
    compared = next(found for found in captions if "Loss curves of 3 runs" in found)
    assert all(f"{name} 0." in compared for name in results["accuracy"])
    shown = f"with both tables {results['accuracy']['both tables']:.1%} of {results['examples']}"
    assert shown in html
    assert "features/machine: float32[5], features/history: float32[40, 2]" in html
    assert "import sparkwright" not in html


def test_preview_shows_partitions_with_equal_shares_per_worker(results, html):
    rows = results["rows_of_workers"]
    assert len(rows) == results["workers"]
    assert sum(rows) == results["training_examples"]
    assert max(rows) - min(rows) <= 1
    assert re.search(r'aria-label="Now: Rows of \d+ partitions?', html)
    assert re.search(r'aria-label="After: Rows of 2 workers', html)
