import logging
import shutil
import subprocess
import sys
from unittest.mock import Mock

import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.cluster.slots import task_slots
from sparkwright.spark import _session

pytestmark = pytest.mark.spark


def test_active_session_is_kept_and_differences_are_named(spark, caplog):
    with caplog.at_level(logging.WARNING):
        again = sw.start_spark(workers=5, settings={"spark.task.maxFailures": 9})
    assert again is spark
    assert "'spark.task.maxFailures': '4'" in caplog.text
    assert "'spark.master': 'local-cluster[5,1,1024]'" in caplog.text
    assert "spark.stop()" in caplog.text


def test_stopped_session_is_named():
    stopped = Mock(sparkContext=Mock(_jsc=None))
    with pytest.raises(sw.ConfigurationError, match="a stopped session"):
        sw.SparkNetwork(stopped, sw.networks.lenet()).predict([[0.0]])


def test_session_settings_suit_training(spark):
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.locality.wait") == "0s"
    assert conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.sparkContext.master == "local-cluster[4,1,1024]"
    assert task_slots(spark) == 4


@pytest.mark.cluster
def test_every_setting_can_be_overridden_for_one_session():
    """In a process of its own: Spark takes its settings when its JVM starts."""
    code = (
        "import sparkwright as sw;"
        "s = sw.start_spark(master='local[2]', settings={'spark.locality.wait': '3s',"
        " 'spark.cores.max': 3, 'spark.ui.showConsoleProgress': True});"
        "c = s.sparkContext.getConf();"
        "print(s.sparkContext.master, c.get('spark.locality.wait'),"
        " c.get('spark.ui.showConsoleProgress'), s.sparkContext.defaultParallelism); s.stop();"
        # Java goes on; what the first session was told does not.
        "c = sw.start_spark(master='local[1]').sparkContext.getConf();"
        "print(c.get('spark.locality.wait'), c.get('spark.cores.max'), c.get('spark.ui.enabled'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["local[2,4]", "3s", "true", "2", "0s", "None", "false"]


@cases("option, value", ("workers", 0), ("cores_per_worker", 0), ("memory_per_worker_mb", 100))
def test_invalid_options_are_named(option, value):
    with pytest.raises(sw.ConfigurationError, match=f"`{option}` must be an integer of at least"):
        sw.start_spark(**{option: value})


def test_missing_java_raises_with_installation_instructions(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(sw.ConfigurationError, match="openjdk-17-jre-headless"):
        _session._find_java()


def test_findspark_is_used_only_if_pyspark_cannot_be_imported(monkeypatch):
    asked = Mock()
    monkeypatch.setattr("findspark.init", asked)
    _session._find_pyspark()
    assert not asked.called
    monkeypatch.setattr(_session.importlib.util, "find_spec", lambda name: None)
    _session._find_pyspark()
    assert asked.called
    asked.side_effect = ValueError("Couldn't find Spark")
    with pytest.raises(sw.ConfigurationError, match="SPARK_HOME"):
        _session._find_pyspark()
