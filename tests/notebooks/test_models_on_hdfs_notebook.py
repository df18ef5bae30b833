import re

import pytest
from tests.support.hadoop import hadoop_jars

from sparkwright.errors import SparkwrightError

NOTEBOOK = "08_models_on_hdfs.ipynb"


@pytest.fixture(scope="module", autouse=True)
def hadoop():
    """Without Hadoop's servers, which `.ci/setup test` gets, these tests are left out."""
    try:
        hadoop_jars()
    except SparkwrightError as error:
        if "Maven" not in str(error):
            raise
        pytest.skip(str(error))


def test_network_trained_from_hdfs_classifies_digits(results):
    assert results["workers"] == 2
    assert results["accuracy"] > 0.93
    assert results["accuracy_resumed"] > 0.93
    assert results["files"]["train"] > 40


def test_hadoop_client_counts_the_exported_files(results):
    rows = [line.split() for line in results["listing"].splitlines()]
    counted = {path.rpartition("/")[2]: int(files) for _, files, _, path in rows}
    # The manifest lies beside them.
    assert counted == {name: files + 1 for name, files in results["files"].items()}


def test_models_describe_themselves(results):
    # The newest first.
    assert list(results["models"].items()) == [
        ("lenet-2.keras", "usable"),
        ("lenet-1.keras", "usable"),
    ]
    assert results["info"] == ["eight epochs", "ann", results["accuracy_resumed"], 8]


def test_loaded_network_continues_to_the_same_bits(results):
    assert results["same"] is True
    assert results["same_after"] is True


def test_lost_datanode_does_not_change_accuracy(results):
    assert results["accuracy_after_loss"] == results["accuracy_resumed"]


def test_predictions_match_the_labels_and_are_written_to_hdfs(results):
    assert results["predicted"] > 300
    assert results["predicted_right"] > 0.93 * results["predicted"]
    assert results["predictions_written"] == -(-results["predicted"] // 64)


def test_temporary_files_are_removed(results):
    assert results["left"] == ["lenet-2.keras"]
    assert results["folder_is_gone"] is True


def test_the_report_shows_the_models(html, results):
    assert (
        f"{results['predicted_right']} of {results['predicted']} images are classified correctly."
        in html
    )
    assert re.search(r"<b>2 models in hdfs://127\.0\.0\.1:\d+/user/ann/models</b>", html)
    listed = re.search(r'aria-label="Saved models".*?<table(.*?)</table>', html, re.DOTALL)
    assert all(f"lenet-{number}.keras" in listed[1] for number in (1, 2))
    assert "eight epochs" in listed[1]
    assert f"a network classifies {results['accuracy']:.1%} of {results['predicted']}" in html
    assert "WARN" not in html
    assert "from IPython" not in html


def test_the_run_has_a_report_on_hdfs(results):
    _folders, files, size_bytes, path = results["reported"].split()
    assert (files, path) == ("1", "/user/ann/reports")
    assert int(size_bytes) > 50_000
