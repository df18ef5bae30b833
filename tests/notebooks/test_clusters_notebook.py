import sparkwright as sw

NOTEBOOK = "10_clusters_and_gpus.ipynb"


def test_doctor_finds_no_problems(results):
    assert results["checks"] > 10
    assert results["healthy"]


def test_measured_network_is_trained(results):
    assert results["accuracy"] > 0.9
    assert results["step_ms"] > 0


def test_plan_matches_the_engine(results):
    plan = sw.advise(25_000_000, workers=4, container="11g", cores=8).memory
    assert results["plan_mib"] == plan.total_mib


def test_excess_memory_is_reported_with_its_sum(html):
    assert "It does not fit: an executor needs" in html


def test_the_report_shows_the_prediction(html):
    assert "Predicted speedup" in html
