"""All kinds of networks: several inputs, custom layers, masks, frozen and half-precision layers."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from tests.spark.helpers import dense, train_locally, weights

import sparkwright as sw
from sparkwright.data import DataSet

pytestmark = pytest.mark.spark


def one_worker(**options: Any) -> sw.ParameterAveragingTrainingMaster:
    """Settings under which training equals training here, minibatch by minibatch."""
    return sw.ParameterAveragingTrainingMaster(
        workers=1, batch_size_per_worker=10, shuffle=False, **options
    )


def two_workers(**options: Any) -> sw.ParameterAveragingTrainingMaster:
    return sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=10, averaging_frequency=1, seed=1, **options
    )


def init(seed: int) -> Any:
    return keras.initializers.GlorotUniform(seed=seed)


def test_several_inputs_and_outputs_by_name(spark: Any) -> None:
    def build() -> Any:
        left, right = keras.Input((3,), name="left"), keras.Input((2,), name="right")
        joined = keras.layers.Concatenate()([left, right])
        one = keras.layers.Dense(1, name="one", kernel_initializer=init(1))(joined)
        two = keras.layers.Dense(2, activation="softmax", name="two", kernel_initializer=init(2))(
            joined
        )
        model = keras.Model([left, right], [one, two])
        model.compile(
            keras.optimizers.SGD(0.05),
            loss=["mse", "sparse_categorical_crossentropy"],
            loss_weights=[1.0, 0.5],
        )
        return model

    random = np.random.default_rng(0)
    # In another order than the network's: they are matched by name.
    data = DataSet(
        {"right": random.random((30, 2), np.float32), "left": random.random((30, 3), np.float32)},
        {"two": random.integers(0, 2, 30).astype(np.int32), "one": random.random((30, 1))},
    )
    model, local = build(), build()
    network = sw.SparkNetwork(spark, model, one_worker())
    network.fit(data)
    for batch in data.batches(10):
        local.train_on_batch(
            [batch.features["left"], batch.features["right"]],
            [batch.labels["one"], batch.labels["two"]],
        )
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)
    assert network.score(data) > 0


def test_custom_layers_losses_and_metrics_defined_here(spark: Any, blobs: DataSet) -> None:
    class Scale(keras.layers.Layer):
        def __init__(self, factor: float = 2.0, **keywords: Any) -> None:
            super().__init__(**keywords)
            self.factor = factor

        def call(self, inputs: Any) -> Any:
            return self.factor * inputs

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "factor": self.factor}

    @keras.saving.register_keras_serializable(package="tests")
    class Registered(keras.layers.Dense):
        pass

    def twice_mse(y_true: Any, y_pred: Any) -> Any:
        y_true = keras.ops.one_hot(keras.ops.cast(keras.ops.reshape(y_true, (-1,)), "int32"), 3)
        return 2 * keras.ops.mean(keras.ops.square(y_true - y_pred), axis=-1)

    def mean_prediction(y_true: Any, y_pred: Any) -> Any:
        del y_true
        return keras.ops.mean(y_pred, axis=-1)

    def build() -> Any:
        layers = [keras.Input((4,)), Scale(3.0), Registered(3, kernel_initializer=init(1))]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.SGD(0.01), twice_mse, metrics=[mean_prediction])
        return model

    model, local = build(), build()
    run = sw.SparkNetwork(spark, model, one_worker()).start(blobs)
    run.wait(60)
    train_locally(local, list(blobs.batches(10)))
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)
    assert run.history["mean_prediction"].notna().sum() == run.status.averagings


def test_sample_weights_count(spark: Any, blobs: DataSet) -> None:
    random = np.random.default_rng(0)
    weighted = DataSet(blobs.features, blobs.labels, weights=random.random(len(blobs)))
    model, local = dense(), dense()
    sw.SparkNetwork(spark, model, one_worker()).fit(weighted)
    train_locally(local, list(weighted.batches(10)))
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)


def test_feature_and_label_masks_hide_padding(spark: Any) -> None:
    """What is masked may hold anything: it changes neither the result nor the loss."""

    def build() -> Any:
        model = keras.Sequential(
            [
                keras.Input((6, 2)),
                keras.layers.LSTM(
                    3,
                    return_sequences=True,
                    kernel_initializer=init(1),
                    recurrent_initializer=init(2),
                ),
                keras.layers.Dense(2, activation="softmax", kernel_initializer=init(3)),
            ]
        )
        model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        return model

    random = np.random.default_rng(0)
    mask = (np.arange(6) < random.integers(2, 7, 20)[:, None]).astype(np.float32)
    features = random.random((20, 6, 2), np.float32)
    labels = random.integers(0, 2, (20, 6)).astype(np.int32)
    found = []
    for rubbish in (0.0, 7.0):
        dirty = np.where(mask[..., None] > 0, features, np.float32(rubbish))
        data = DataSet(
            dirty,
            np.where(mask > 0, labels, int(rubbish > 0)),
            features_masks=mask,
            labels_masks=mask,
        )
        model = build()
        network = sw.SparkNetwork(spark, model, two_workers())
        network.fit(data, epochs=2)
        evaluation = network.evaluate(data)
        assert evaluation.confusion.sum() == mask.sum()
        found.append((weights(model), network.score(data)))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-6)
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-5)


def test_batch_normalization_statistics_are_averaged_and_frozen_weights_stay(
    spark: Any, blobs: DataSet
) -> None:
    def build() -> Any:
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.Dense(5, trainable=False, kernel_initializer=init(1)),
                keras.layers.BatchNormalization(momentum=0.5),
                keras.layers.Dense(3, activation="softmax", kernel_initializer=init(2)),
            ]
        )
        model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        return model

    part = blobs.take(slice(0, 20))
    model = build()
    frozen = [w.copy() for w in model.layers[0].get_weights()]
    sw.SparkNetwork(spark, model, two_workers(shuffle=False)).fit(part)
    for before, after in zip(frozen, model.layers[0].get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    replicas = [build(), build()]
    train_locally(replicas[0], [part.take(slice(0, 10))])
    train_locally(replicas[1], [part.take(slice(10, 20))])
    for mine, *theirs in zip(
        model.layers[1].get_weights(),
        *(replica.layers[1].get_weights() for replica in replicas),
        strict=True,
    ):
        np.testing.assert_allclose(mine, (theirs[0] + theirs[1]) / 2, atol=1e-6)


def test_integer_state_is_left_alone(spark: Any, blobs: DataSet) -> None:
    class Counting(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            del shape
            self.calls = self.add_weight(
                shape=(), dtype="int32", initializer="zeros", trainable=False
            )

        def call(self, inputs: Any, training: bool = False) -> Any:
            if training:
                self.calls.assign_add(1)
            return inputs

    model = keras.Sequential(
        [keras.Input((4,)), Counting(), keras.layers.Dense(3, activation="softmax")]
    )
    model.compile("sgd", "sparse_categorical_crossentropy")
    sw.SparkNetwork(spark, model, two_workers()).fit(blobs)
    assert int(model.layers[0].calls.numpy()) == 6  # worker 0's own count, no mean


def test_dropout_draws_differ_between_workers_and_repeat_with_the_seed(
    spark: Any, blobs: DataSet
) -> None:
    def fit(workers: int) -> Any:
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.Dense(16, kernel_initializer=init(1)),
                keras.layers.Dropout(0.5, seed=3),
                keras.layers.Dense(3, activation="softmax", kernel_initializer=init(2)),
            ]
        )
        model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        # The same twenty examples for each worker: alike draws would make the workers alike.
        twice = DataSet.concatenate([blobs.take(slice(0, 20))] * workers)
        master = sw.ParameterAveragingTrainingMaster(
            workers=workers, batch_size_per_worker=10, averaging_frequency=1, shuffle=False
        )
        sw.SparkNetwork(spark, model, master).fit(twice)
        return weights(model)

    np.testing.assert_array_equal(fit(2), fit(2))
    assert abs(fit(2) - fit(1)).max() > 1e-4


def test_mixed_precision_trains(spark: Any, blobs: DataSet) -> None:
    def build() -> Any:
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.Dense(8, dtype="mixed_bfloat16", kernel_initializer=init(1)),
                keras.layers.Dense(3, activation="softmax", kernel_initializer=init(2)),
            ]
        )
        model.compile(
            keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
            "sparse_categorical_crossentropy",
        )
        return model

    model, local = build(), build()
    sw.SparkNetwork(spark, model, one_worker()).fit(blobs)
    train_locally(local, list(blobs.batches(10)))
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-2)
    assert abs(weights(model) - weights(build())).max() > 1e-2


def test_learning_rate_schedules_follow_the_iterations(spark: Any, blobs: DataSet) -> None:
    def build() -> Any:
        schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 5, 0.1)
        return dense(keras.optimizers.SGD(schedule))

    model, local = build(), build()
    network = sw.SparkNetwork(spark, model, one_worker(averaging_frequency=2))
    for _ in range(2):
        network.fit(blobs)
    train_locally(local, list(blobs.batches(10)) * 2)
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)


def test_validation_loss_and_metrics_are_those_of_the_averaged_network(
    spark: Any, blobs: DataSet
) -> None:
    train, held_back = blobs.take(slice(0, 87)), blobs.take(slice(87, 120))
    model = dense()
    run = sw.SparkNetwork(spark, model, two_workers()).start(train, epochs=3, validation=held_back)
    run.wait(60)
    points = run.status.validation
    assert [point.epoch for point in points] == [1, 2, 3]
    x, y = held_back.features["features"], held_back.labels["labels"]
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert points[-1].loss == pytest.approx(loss, abs=1e-5)
    assert points[-1].metrics["accuracy"] == pytest.approx(accuracy, abs=1e-6)


def test_evaluation_and_score_equal_those_on_one_machine(
    spark: Any, blobs: DataSet, leaves_nothing: None
) -> None:
    model = dense()
    network = sw.SparkNetwork(spark, model, two_workers())
    network.fit(blobs, epochs=3)
    evaluation_only = sw.SparkNetwork(spark, model)
    x, y = blobs.features["features"], blobs.labels["labels"]
    expected = sw.Evaluation.from_predictions(y, model.predict(x, verbose=0))
    found = evaluation_only.evaluate(blobs, batch_size=7)
    np.testing.assert_array_equal(found.confusion, expected.confusion)
    assert found.accuracy == pytest.approx(model.evaluate(x, y, verbose=0)[1], abs=1e-6)
    assert found.f1() == pytest.approx(expected.f1(), abs=1e-9)
    loss = model.evaluate(x, y, verbose=0)[0]
    assert evaluation_only.score(blobs) == pytest.approx(loss, abs=1e-5)
    assert evaluation_only.score(blobs, average=False) == pytest.approx(120 * loss, abs=1e-3)
    with pytest.raises(sw.DataError, match="needs labels"):
        evaluation_only.evaluate(DataSet(x))


def test_a_loaded_model_goes_on_as_if_it_had_never_been_saved(
    spark: Any, blobs: DataSet, tmp_path: Any
) -> None:
    url = f"file://{tmp_path}/models/dense.keras"
    model, other = dense("adam"), dense("adam")
    network = sw.SparkNetwork(spark, model, one_worker())
    network.fit(blobs)
    network.save(url)
    loaded = sw.SparkNetwork.load(spark, url, one_worker())
    for one in (network, loaded):
        one.fit(blobs)
    np.testing.assert_allclose(weights(loaded.model), weights(model), atol=1e-6)
    del other
    with pytest.raises(FileNotFoundError, match=r"missing\.keras does not exist"):
        sw.load_model(f"file://{tmp_path}/missing.keras")
    assert [p.name for p in (tmp_path / "models").iterdir()] == ["dense.keras"]


def test_an_evaluation_knows_the_names_of_the_datas_classes(spark: Any, blobs: DataSet) -> None:
    data = sw.data.from_arrays(spark, blobs.features, blobs.labels)
    data.class_names = {"labels": ("ant", "bee", "cat")}
    network = sw.SparkNetwork(spark, dense())
    assert network.evaluate(data).class_names == ("ant", "bee", "cat")
    assert network.evaluate(data, class_names=["a", "b", "c"]).class_names == ("a", "b", "c")


def test_dataframes_and_pairs_are_data_too(spark: Any, blobs: DataSet) -> None:
    x, y = blobs.features["features"], blobs.labels["labels"]
    rows = [(*map(float, row), int(label)) for row, label in zip(x, y, strict=True)]
    frame = spark.createDataFrame(rows, ["a", "b", "c", "d", "label"]).coalesce(1)
    pairs = spark.sparkContext.parallelize(list(zip(x, y, strict=True)), 1)
    as_arrays = frame.selectExpr("array(a, b, c, d) AS features", "label")
    found = []
    for data in (
        blobs,
        as_arrays,
        sw.data.from_dataframe(frame, features=["a", "b", "c", "d"], labels=["label"]),
        pairs,
    ):
        model = dense()
        sw.SparkNetwork(spark, model, one_worker()).fit(data)
        found.append(weights(model))
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    np.testing.assert_allclose(found[2], found[0], atol=1e-6)
    np.testing.assert_allclose(found[3], found[0], atol=1e-6)


def test_phases_are_recorded_on_request(spark: Any, blobs: DataSet) -> None:
    master = two_workers(collect_training_stats=True)
    run = sw.SparkNetwork(spark, dense(), master).start(blobs)
    run.wait(60)
    stats = run.stats
    assert list(stats) == ["worker", "phase", "start_s", "seconds"]
    assert {"data", "compute", "wait", "average"} <= set(stats["phase"])
    assert "work" not in set(stats["phase"])  # it encloses the others
    assert (stats.query("phase == 'average'").groupby("worker").size() >= 1).tolist() == [True] * 2
    assert (stats["seconds"] >= 0).all()


def test_xla_by_measuring(spark: Any, blobs: DataSet) -> None:
    """Whichever is chosen, the trial leaves no trace in the result."""
    found = []
    for xla in ("off", "measure"):
        model = dense("adam")
        sw.SparkNetwork(spark, model, one_worker(xla=xla)).fit(blobs)
        found.append(weights(model))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_the_driver_needs_no_tensorflow_to_import_the_engine() -> None:
    import subprocess
    import sys

    code = "import sparkwright, sys; print({'tensorflow', 'pyspark', 'keras'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_training_on_nothing_is_refused_and_says_what_was_skipped(
    spark: Any, tmp_path: Path
) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("a,b,c,d,label\n" + "1,2,3,four,0\n" * 5)
    data = sw.data.from_csv(spark, str(path), labels="label", classes=3, on_error="skip")
    network = sw.SparkNetwork(spark, dense(), one_worker())
    with pytest.raises(sw.DataError, match=r"at least one example.*5 skipped: 5 not a number"):
        network.fit(data)


def test_what_was_skipped_is_said_when_training_begins(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("a,b,c,d,label\n1,2,3,four,0\n" + "1,2,3,4,0\n" * 5)
    data = sw.data.from_csv(spark, str(path), labels="label", classes=3, on_error="skip")
    sw.SparkNetwork(spark, dense(), one_worker()).fit(data)
    assert "1 skipped: 1 not a number" in caplog.text
