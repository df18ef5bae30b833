from sparkwright.data import TableSchema

NOTEBOOK = "03_csv.ipynb"
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


def test_the_report_has_its_result_on_top(html, results):
    assert f"<strong>Result: {results['accuracy']:.1%} of {TEST} test tumors" in html
    assert "1 invalid line was skipped" in html
    assert "await run" not in html  # code is left out
