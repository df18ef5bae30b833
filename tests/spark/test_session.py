"""Starting Spark, or using the session that is there."""

import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sparkwright as sw
from sparkwright.cluster.slots import task_slots
from sparkwright.spark import _session

pytestmark = pytest.mark.spark


def test_the_active_session_is_respected_and_differences_are_named(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        again = sw.start_spark(workers=2, settings={"spark.task.maxFailures": 9})
    assert again is spark
    assert "'spark.task.maxFailures': '4'" in caplog.text
    assert "spark.stop()" in caplog.text


def test_the_sessions_settings_suit_training(spark: Any) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.locality.wait") == "0s"
    assert conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.sparkContext.master == "local-cluster[4,1,1024]"
    assert task_slots(spark) == 4


@pytest.mark.cluster
def test_every_setting_can_be_overridden_for_one_session() -> None:
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


@pytest.mark.parametrize(
    ("option", "value"),
    [("workers", 0), ("cores_per_worker", 0), ("memory_per_worker_mb", 100)],
)
def test_options_that_cannot_be_meant_are_named(option: str, value: int) -> None:
    with pytest.raises(sw.ConfigurationError, match=f"`{option}` must be at least"):
        sw.start_spark(**{option: value})  # pyright: ignore[reportArgumentType]


def test_java_that_is_missing_ends_in_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(sw.ConfigurationError, match="openjdk-17-jre-headless"):
        _session._find_java()


def test_findspark_is_asked_only_when_pyspark_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import findspark

    asked: list[bool] = []
    monkeypatch.setattr(findspark, "init", lambda: asked.append(True))
    _session._find_pyspark()
    assert not asked
    monkeypatch.setattr(_session.importlib.util, "find_spec", lambda name: None)
    _session._find_pyspark()
    assert asked

    def fail() -> None:
        raise ValueError("Couldn't find Spark")

    monkeypatch.setattr(findspark, "init", fail)
    with pytest.raises(sw.ConfigurationError, match="SPARK_HOME"):
        _session._find_pyspark()


_DRIVER = """
import sys
from pyspark import SparkContext
import sparkwright as sw
from sparkwright.spark._defaults import spark_home
SparkContext._ensure_initialized()
print("ready", flush=True)
for line in sys.stdin:
    if line == "start\\n":
        spark = sw.start_spark(workers=1, memory_per_worker_mb=512)
        print(spark.sparkContext.applicationId, flush=True)
    elif line == "stop\\n":
        spark.stop()
        print("stopped", flush=True)
    else:
        spark.range(5).count()
        folder = spark_home() / "work" / spark.sparkContext.applicationId
        names = [each.name for each in folder.iterdir()] if folder.exists() else "no folder"
        print(names, flush=True)
"""


@pytest.mark.cluster
def test_sessions_of_one_second_have_folders_of_their_own() -> None:
    drivers = [
        subprocess.Popen(
            [sys.executable, "-c", _DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]

    def tell(command: str) -> list[str]:
        for driver in drivers:
            assert driver.stdin is not None
            driver.stdin.write(f"{command}\n")
            driver.stdin.flush()
        return answers()

    def answers() -> list[str]:
        found: list[str] = []
        for driver in drivers:
            assert driver.stdout is not None
            found.append(driver.stdout.readline().strip())
        return found

    try:
        assert answers() == ["ready", "ready"]
        for _ in range(10):
            first, second = tell("start")
            if first.split("-")[1] == second.split("-")[1]:
                break
            assert tell("stop") == ["stopped", "stopped"]
        else:
            pytest.skip("no two sessions were started in one second")
        drivers.pop(0).communicate(timeout=60)  # the end of its input ends it
        assert tell("look") == ["['0']"]
        assert first != second
    finally:
        for driver in drivers:
            driver.communicate(timeout=60)
