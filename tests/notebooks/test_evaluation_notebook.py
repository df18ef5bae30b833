from sklearn.datasets import load_breast_cancer

NOTEBOOK = "07_evaluation.ipynb"
TEST, MALIGNANT, OTHERS = 205, 87, 142  # tumors, those of them malignant; people


def test_early_stopping_ends_training(results):
    assert results["workers"] == 2
    assert 10 < results["best_epoch"] == results["epochs"] - 8 < 52


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


def test_the_report_has_its_result_on_top(html, results):
    assert f"<strong>Result: {results['accuracy']:.1%} of {TEST} test tumors" in html
    assert "Matthews correlation" in html
    assert "from IPython" not in html
