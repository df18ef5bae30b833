import optuna

NOTEBOOK = "13_sweep.ipynb"


def test_trials_run_two_at_a_time_and_the_best_classifies_digits(results):
    assert results["parallel"] == results["workers"] == 2
    assert sum(results["states"].values()) == 10
    assert results["states"]["COMPLETE"] >= 3
    assert results["accuracy"] > 0.9
    assert abs(results["accuracy"] - results["value"]) < 0.08


def test_storage_contains_the_trials(reports, results):
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{reports}/sweep.sqlite")
    assert study.best_params == results["best"]


def test_report_shows_the_final_state_of_the_sweep(html):
    assert "Done: 10 of 10 trials" in html
    assert html.count("<polyline") >= 3
    assert "<strong>Result: the best of 10 trials" in html
