NOTEBOOK = "11_transfer_learning.ipynb"
SHORTER = {"epochs=8": "epochs=5"}


def test_second_task_gains_from_the_first_and_from_fine_tuning(results):
    assert results["workers"] == 2
    assert results["pretrained"] > 0.8
    assert results["frozen"] > 0.4  # by chance 0.2
    assert results["accuracy"] > results["frozen"] + 0.1


def test_report_has_its_result_on_top(html, results):
    sentence = f"<strong>Result: {results['accuracy']:.1%} of {results['examples']} test digits"
    assert sentence in html
    assert "import sparkwright" not in html
