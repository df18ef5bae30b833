import dataclasses
import errno
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

import sparkwright as sw
from sparkwright.spark._session import _settings, _warn_about_differences
from sparkwright.spark.secrets import LEFT_OUT, without_secrets

settings = st.builds(
    sw.SparkSettings,
    workers=st.integers(1, 64),
    cores_per_worker=st.integers(1, 8),
    memory_per_worker_mb=st.integers(512, 1 << 20),
    gpus_per_executor=st.integers(0, 8),
    gpu_tasks=st.sampled_from(["all", "networks"]),
    cpu_fallback=st.booleans(),
    node_label=st.none() | st.text(),
    master=st.none() | st.sampled_from(["yarn", "local[2]", "spark://m:7077"]),
    # What looks secret stays out of files; other tests are about that.
    settings=st.dictionaries(st.text(min_size=1, max_size=9), st.integers() | st.booleans()).filter(
        lambda settings: without_secrets(settings) == settings
    ),
)


@given(settings)
def test_settings_round_trip_through_json_yaml_and_code(settings):
    assert sw.SparkSettings.from_json(settings.to_json()) == settings
    assert sw.SparkSettings.from_yaml(settings.to_yaml()) == settings
    given = {}

    class Stand:
        @staticmethod
        def start_spark(**arguments):
            given.update(arguments)

    exec(settings.to_code(), {"sw": Stand})
    assert sw.SparkSettings(**given) == settings


def test_documentation_names_what_start_spark_sets():
    page = (Path(__file__).parents[2] / "docs/troubleshooting.md").read_text(encoding="utf-8")
    rows = [row.split("|") for row in page.splitlines() if row.startswith("| `spark.")]
    marked = {name for row in rows if "●" in row[1] for name in re.findall(r"`(.*?)`", row[1])}
    named = {name for row in rows for name in re.findall(r"`(spark\..*?)`", row[1])}
    chosen = _settings(workers=2, cores=1, memory_mb=1024, master=None, app_name="a")
    assert marked == named & set(chosen)


SECRETS = {
    "spark.hadoop.fs.s3a.secret.key": "abc123",
    "spark.executor.extraJavaOptions": "-Ddb.pass=abc123",
    "spark.hadoop.fs.azure.sas.box.account": "abc123",
}


def test_secrets_are_omitted_from_files_code_and_repr():
    settings = sw.SparkSettings(settings={**SECRETS, "spark.a": "b"})
    experiment = sw.Experiment(spark=settings)
    for each in (settings, experiment):
        assert "abc123" not in each.to_json() + each.to_yaml() + each.to_code() + repr(each)
    assert "abc123" not in str(experiment.to_notebook())
    assert "left out, because it looks secret" in experiment.to_yaml()
    assert settings.changed()["settings"]["spark.hadoop.fs.s3a.secret.key"] == "abc123"
    assert settings.missing == ()


def test_missing_secrets_raise_before_spark_starts(monkeypatch):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr("sparkwright.spark._session._find_java", lambda: pytest.fail("too late"))
    settings = sw.SparkSettings(settings={**SECRETS, "spark.a": "b"})
    again = sw.SparkSettings.from_yaml(settings.to_yaml())
    assert set(again.missing) == set(SECRETS)
    with pytest.raises(sw.ConfigurationError, match=r"no values for .*fs\.s3a\.secret\.key"):
        again.start()
    given = {**again.settings, **SECRETS}
    assert dataclasses.replace(again, settings=given) == settings


def test_existing_session_is_compared_without_revealing_secrets(caplog):
    conf = pyspark.SparkConf(loadDefaults=False)
    conf.setAll([("spark.b.password", "old123"), ("spark.a", "b")])
    context = SimpleNamespace(master="local-cluster[2,1,1024]", getConf=lambda: conf)
    session = SimpleNamespace(sparkContext=context)
    _warn_about_differences(session, None, {"spark.b.password": LEFT_OUT, "spark.a": "b"}, 2)
    assert not caplog.records
    changed = {"spark.b.password": "abc123", "spark.c.token": LEFT_OUT}
    _warn_about_differences(session, None, changed, 3)
    assert "local-cluster[3,1,1024]" in caplog.text
    assert "spark.c.token" in caplog.text
    assert "abc123" not in caplog.text
    assert "old123" not in caplog.text


@pytest.mark.parametrize("value", [object(), None, float("nan"), ["a"], {"b": 1}])
def test_values_that_files_cannot_store_are_rejected(value):
    with pytest.raises(sw.ConfigurationError, match=r"settings\['spark.a'\], of class"):
        sw.SparkSettings(settings={"spark.a": value})
    with pytest.raises(sw.ConfigurationError, match="names of Spark settings"):
        sw.SparkSettings(settings={1: "a"})


def test_full_temporary_folder_raises_before_java_starts(monkeypatch, tmp_path):
    """PySpark waits without end for a file that Java cannot write."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr("sparkwright.spark._session.start_java", lambda _: pytest.fail("too late"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    words = re.escape(f"Received: {tmp_path}: No space left on device. Free space there, or set")
    with pytest.raises(sw.ConfigurationError, match=words):
        sw.start_spark()


@cases("master", None, "local[2]", "spark://m:7077", "yarn", "k8s://https://m:6443")
def test_a_driver_without_memory_ends_on_each_cluster(master):
    """As Spark prepends its default options, those of the user do not replace it."""
    chosen = _settings(workers=1, cores=1, memory_mb=1024, master=master, app_name="test")
    assert "-XX:+ExitOnOutOfMemoryError" in chosen["spark.driver.defaultJavaOptions"].split()
