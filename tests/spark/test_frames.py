import datetime

import numpy as np
import pandas as pd
import pytest
from tests.cases import cases
from tests.spark import helpers

import sparkwright as sw
from sparkwright.networks.metrics import F1


def flowers(count=240):
    """Four numbers, and a name that the first three of them give away."""
    random = np.random.default_rng(3)
    kinds = random.integers(0, 3, count)
    numbers = random.normal(0, 0.3, (count, 4))
    numbers[np.arange(count), kinds] += 3
    frame = pd.DataFrame(numbers, columns=["a", "b", "c", "d"])
    return frame.assign(species=np.array(["rose", "aster", "iris"])[kinds])


def network(spark):
    master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=12, seed=1)
    return sw.SparkNetwork(spark, helpers.dense("adam"), master)


def test_pandas_frame_can_be_trained_validated_evaluated_and_predicted(spark, tmp_path):
    train, test = flowers(), flowers(60)
    trained = network(spark)
    trained.model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy", F1()])
    trained.fit(train, label="species", validation=test, epochs=4, display=False)
    evaluation = trained.evaluate(test)
    assert trained.history.history["val_f1"][-1] == pytest.approx(evaluation.f1(), abs=1e-6)
    assert evaluation.accuracy > 0.9
    assert evaluation.class_names == ("aster", "iris", "rose")
    found = trained.predict(test.drop(columns="species")[["d", "c", "b", "a"]])
    whole = trained.predict(test)
    np.testing.assert_allclose(found, whole, rtol=1e-6)
    right = np.array(evaluation.class_names)[found.argmax(axis=1)] == test["species"]
    assert right.mean() == evaluation.accuracy
    # The same columns in Spark, and the network as it was saved.
    trained.save(str(tmp_path / "flowers.keras"))
    loaded = sw.SparkNetwork.load(spark, str(tmp_path / "flowers.keras"))
    frame = spark.createDataFrame(test)
    assert loaded.evaluate(frame).accuracy == evaluation.accuracy
    predicted = [row.prediction for row in loaded.predict(frame).select("prediction").collect()]
    np.testing.assert_allclose(predicted, whole, rtol=1e-5)


def test_arrays_are_accepted_in_keras_form(spark):
    frame = flowers(120)
    x, classes = frame[["a", "b", "c", "d"]], frame["species"].astype("category").cat.codes
    trained = network(spark)
    trained.fit(x.to_numpy(), classes.to_numpy(), display=False)
    accuracy = trained.evaluate((x.to_numpy(), classes)).accuracy
    assert accuracy == trained.evaluate((x, classes)).accuracy
    assert len(trained.worst_examples((x, classes), 2)) == 2


@cases(
    "options, message",
    ({"label": "kind"}, "unknown columns 'kind'"),
    ({"label": "y", "features": ["a", "x"]}, "unknown columns 'x'"),
    ({}, "column to predict|column `features`"),
    (
        {"label": "y"},
        r"'city' of type string, 'when' of type timestamp, 'day' of type date, 'place' of type "
        r"struct<x:double,y:double>, 'raw' of type binary, 'none' of type void\. 'city': "
        r"convert .*StringIndexer.*'when', 'day': .*datediff.*'place': select.*"
        r"'raw', 'none': leave them",
    ),
)
def test_unsuitable_columns_fail_on_the_driver(spark, options, message):
    now = datetime.datetime(2026, 1, 1)
    rows = [(1.0, "Ulm", now, now.date(), (1.0, 2.0), b"a", None, 0)]
    schema = (
        "a double, city string, when timestamp, day date, place struct<x double, y double>, "
        "raw binary, none void, y int"
    )
    frame = spark.createDataFrame(rows, schema)
    assert_fails_before_a_job(spark, message, frame, **options)


@cases(
    "validation, message",
    ((np.zeros((4, 3)), np.zeros(4, int)), r"data: features 'features' .*Received: \(3\)"),
    ((np.zeros((4, 4)), np.full(4, 3)), r"data: labels 'labels' .*from 3 to 3"),
    ((np.zeros((4, 4)),), "data: labels are needed"),
    (flowers(4).drop(columns="a"), r"data must have the columns .* without 'a'\."),
)
def test_validation_data_is_checked_on_the_driver(spark, validation, message):
    message = f"validation {message}"
    assert_fails_before_a_job(spark, message, flowers(), label="species", validation=validation)


def assert_fails_before_a_job(spark, message, data, **options):
    jobs = spark.sparkContext.statusTracker()
    before = jobs.getJobIdsForGroup(None)
    with pytest.raises(sw.DataError, match=message):
        network(spark).start(data, display=False, **options)
    assert jobs.getJobIdsForGroup(None) == before
