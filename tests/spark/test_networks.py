import keras
import numpy as np
import pytest
from tests.spark.helpers import dense, train_locally, weights

import sparkwright as sw


def one_worker(**options):
    """Settings under which training equals training here, minibatch by minibatch."""
    return sw.ParameterAveragingTrainingMaster(
        workers=1, batch_size_per_worker=10, shuffle=False, **options
    )


def two_workers(**options):
    return sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=10, averaging_frequency=1, seed=1, **options
    )


def test_custom_layers_losses_and_metrics_of_a_script_are_supported(spark, blobs):
    class Scale(keras.layers.Layer):
        def __init__(self, factor=2.0, **keywords):
            super().__init__(**keywords)
            self.factor = factor

        def call(self, inputs):
            return self.factor * inputs

        def get_config(self):
            return {**super().get_config(), "factor": self.factor}

    @keras.saving.register_keras_serializable(package="tests")
    class Registered(keras.layers.Dense):
        pass

    def twice_mse(y_true, y_pred):
        y_true = keras.ops.one_hot(keras.ops.cast(keras.ops.reshape(y_true, (-1,)), "int32"), 3)
        return 2 * keras.ops.mean(keras.ops.square(y_true - y_pred), axis=-1)

    def mean_prediction(y_true, y_pred):
        return keras.ops.mean(y_pred, axis=-1)

    def build():
        layers = [keras.Input((4,)), Scale(3.0), Registered(3, kernel_initializer="ones")]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.SGD(0.01), twice_mse, metrics=[mean_prediction])
        return model

    model, local = build(), build()
    run = sw.SparkNetwork(spark, model, one_worker()).start(blobs)
    run.wait(60)
    train_locally(local, list(blobs.batches(10)))
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)
    assert run.history["mean_prediction"].notna().sum() == run.status.averagings


def test_evaluation_and_score_equal_those_on_one_machine(spark, blobs, leaves_nothing):
    model = dense()
    network = sw.SparkNetwork(spark, model, two_workers())
    network.fit(blobs)
    evaluation_only = sw.SparkNetwork(spark, model)
    x, y = blobs.features["features"], blobs.labels["labels"]
    expected = sw.Evaluation.from_predictions(y, model.predict(x, verbose=0))
    found = evaluation_only.evaluate(x, y, batch_size=7)
    np.testing.assert_array_equal(found.confusion, expected.confusion)
    assert found.accuracy == pytest.approx(model.evaluate(x, y, verbose=0)[1], abs=1e-6)
    assert found.f1() == pytest.approx(expected.f1(), abs=1e-9)
    loss = model.evaluate(x, y, verbose=0)[0]
    assert evaluation_only.score(blobs) == pytest.approx(loss, abs=1e-5)
    assert evaluation_only.score(blobs, average=False) == pytest.approx(120 * loss, abs=1e-3)
    with pytest.raises(sw.DataError, match="needs labels"):
        evaluation_only.evaluate(sw.DataSet(x))


def test_evaluation_uses_the_class_names_of_the_data(spark, blobs):
    data = sw.data.from_arrays(spark, blobs.features, blobs.labels)
    data.class_names = {"labels": ("ant", "bee", "cat")}
    network = sw.SparkNetwork(spark, dense())
    assert network.evaluate(data).class_names == ("ant", "bee", "cat")
    assert network.evaluate(data, class_names=["a", "b", "c"]).class_names == ("a", "b", "c")


@pytest.mark.versions
def test_dataframes_and_pairs_are_accepted_as_data(spark, blobs):
    x, y = blobs.features["features"], blobs.labels["labels"]
    rows = [(*map(float, row), int(label)) for row, label in zip(x, y, strict=True)]
    frame = spark.createDataFrame(rows, ["a", "b", "c", "d", "label"]).coalesce(1)
    pairs = spark.sparkContext.parallelize(list(zip(x, y, strict=True)), 1)
    as_arrays = frame.selectExpr("array(a, b, c, d) AS features", "label")
    columns = sw.data.from_dataframe(frame, features=["a", "b", "c", "d"], labels=["label"])
    network = sw.SparkNetwork(spark, dense(), one_worker())
    before = network.score(blobs)
    for data in (as_arrays, columns, pairs):
        assert network.score(data) == pytest.approx(before, abs=1e-5)
    network.fit(as_arrays)
    network.fit(pairs)
    local = dense()
    train_locally(local, list(blobs.batches(10)) * 2)
    np.testing.assert_allclose(weights(network.model), weights(local), atol=1e-5)


def read_with_bad_rows(spark, folder, *, good):
    path = folder / "texts.csv"
    path.write_text("a,b,c,d,label\n1,2,3,four,0\n" + "1,2,3,4,0\n" * good)
    return sw.data.from_csv(spark, str(path), labels="label", classes=3, on_error="skip")


def test_training_without_examples_raises_and_lists_skipped_rows(spark, tmp_path):
    network = sw.SparkNetwork(spark, dense(), one_worker())
    with pytest.raises(sw.DataError, match=r"at least one example.*1 skipped: 1 not a number"):
        network.fit(read_with_bad_rows(spark, tmp_path, good=0))


@pytest.mark.thorough
def test_skipped_rows_are_reported_when_training_begins(spark, tmp_path, caplog):
    network = sw.SparkNetwork(spark, dense(), one_worker())
    network.fit(read_with_bad_rows(spark, tmp_path, good=5))
    assert "1 skipped: 1 not a number" in caplog.text
