import os
import re
import subprocess
import sys

import pytest
from tests.cases import cases

from sparkwright.spark._java import configures_log

SCRIPT = """
import sys
import sparkwright as sw
import numpy as np
import keras

spark = sw.start_spark(workers=1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=10, averaging_frequency=2)
network = sw.SparkNetwork(spark, model, master)
features = np.random.default_rng(0).normal(size=(400, 4)).astype("float32")
data = sw.DataSet(features, np.arange(400, dtype="int32") % 3)
network.fit(data, epochs=2, validation=data, name="first")

def failing(row):
    raise ValueError("of a task")

try:
    spark.sparkContext.parallelize([1], 1).map(failing).collect()
except Exception:
    print("failed")
print(network.evaluate(data).accuracy > 0)
network.start(data, epochs=100000, name="ended")
"""


@pytest.mark.spark
@pytest.mark.cluster
def test_script_prints_only_its_progress(tmp_path):
    """Also at its end, with a session and a run that go on, and after a job that failed."""
    # Without what the tests set.
    environment = {
        name: text for name, text in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env=environment | {"SPARKWRIGHT_RUNS": str(tmp_path / "runs.sqlite")},
        timeout=200,
    )
    # The last run may or may not have come to an averaging.
    pattern = r"run ended was ended by the end of the process; the model [^\n]*\n"
    assert re.fullmatch(pattern, done.stderr), done.stderr
    assert done.returncode == 0
    models = [str(path) for path in tmp_path.glob("ended-*.keras")]
    assert re.findall(r"It is in (\S+): `sw.load_model`", done.stderr) == models
    numbers = r"- \d+\w+ - [\d,]+ examples/s - accuracy: [\d.]+ - loss: [\d.]+"
    lines = [
        "Run first: sequential on 1 worker",
        *(rf"Epoch {n}/2 - 40/40 {numbers} - val_accuracy: \S+ - val_loss: \S+" for n in (1, 2)),
        *("failed", "True", "Run ended: sequential on 1 worker"),
        "Run ended: stopped; the model holds (the last average|what it held)",
    ]
    found = [text for text in done.stdout.splitlines() if "/100000 " not in text]
    assert len(found) == len(lines), done.stdout
    for text, pattern in zip(found, lines, strict=True):
        assert re.fullmatch(pattern, text), text


@cases(
    "settings, variables",
    ({"spark.log.level": "INFO"}, {}),
    ({"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=own.xml"}, {}),
    ({}, {"JDK_JAVA_OPTIONS": "-Dlog4j2.level=info"}),
    ({}, {"SPARK_CONF_DIR": "with a file"}),
)
def test_log_configured_by_the_user_is_unchanged(settings, variables, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert not configures_log({"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"})
    (tmp_path / "log4j2.properties.template").touch()
    assert not configures_log({})
    for name, text in variables.items():
        if name == "SPARK_CONF_DIR":
            (tmp_path / "log4j2.properties").touch()
        else:
            monkeypatch.setenv(name, text)
    assert configures_log(settings)
