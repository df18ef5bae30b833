"""Training on Spark equals training on one machine, where the arithmetic says it must."""

from typing import Any

import numpy as np
import pytest
from tests.spark.helpers import dense, train_locally, weights

import sparkwright as sw
from sparkwright.data import DataSet, from_arrays
from sparkwright.masters._plan import epoch_order

pytestmark = pytest.mark.spark


def optimizer(name: str) -> Any:
    import keras

    return {
        "sgd": keras.optimizers.SGD(0.1),
        "rmsprop": keras.optimizers.RMSprop(0.01),
        "adam": keras.optimizers.Adam(0.01),
    }[name]


@pytest.mark.parametrize(("name", "save_updater"), [("sgd", True), ("adam", False)])
def test_one_worker_equals_local_training(
    spark: Any, blobs: DataSet, name: str, save_updater: bool
) -> None:
    # As in Deeplearning4j's test: three minibatches of ten, one averaging.
    part = blobs.take(slice(0, 30))
    master = sw.ParameterAveragingTrainingMaster(
        workers=1, batch_size_per_worker=10, save_updater=save_updater, seed=3
    )
    model, local = dense(optimizer(name)), dense(optimizer(name))
    sw.SparkNetwork(spark, model, master).fit(part)
    order = epoch_order(30, seed=3, epoch=0, worker=0, shuffle=True)
    train_locally(local, list(part.take(order).batches(10)))
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)
    assert int(model.optimizer.iterations) == 3


@pytest.mark.parametrize("name", ["rmsprop", "adam"])
def test_saved_updater_goes_on_over_averagings(spark: Any, blobs: DataSet, name: str) -> None:
    master = sw.ParameterAveragingTrainingMaster(
        workers=1, batch_size_per_worker=10, averaging_frequency=2, shuffle=False
    )
    model, local = dense(optimizer(name)), dense(optimizer(name))
    network = sw.SparkNetwork(spark, model, master)
    network.fit(blobs, epochs=2)
    train_locally(local, list(blobs.batches(10)) * 2)
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)
    # The driver's optimizer holds the average: training goes on as if it had never ended.
    network.fit(blobs)
    train_locally(local, list(blobs.batches(10)))
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)


def test_without_saved_updater_the_optimizer_starts_afresh_after_each_averaging(
    spark: Any, blobs: DataSet
) -> None:
    import keras

    master = sw.ParameterAveragingTrainingMaster(
        workers=1,
        batch_size_per_worker=10,
        averaging_frequency=2,
        shuffle=False,
        save_updater=False,
    )
    model, local = (dense(keras.optimizers.SGD(0.1, momentum=0.9)) for _ in range(2))
    sw.SparkNetwork(spark, model, master).fit(blobs.take(slice(0, 60)))
    for start in range(0, 60, 20):
        train_locally(local, list(blobs.take(slice(start, start + 20)).batches(10)))
        for variable in local.optimizer.variables[2:]:
            variable.assign(np.zeros(variable.shape))
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)


def test_averaging_every_step_equals_the_large_batch(spark: Any, blobs: DataSet) -> None:
    import keras

    part = blobs.take(slice(0, 40))
    master = sw.ParameterAveragingTrainingMaster(
        workers=4, batch_size_per_worker=10, averaging_frequency=1
    )
    model, local = (
        dense(keras.optimizers.SGD(0.5), regularizer=keras.regularizers.L1L2(0.01, 0.01))
        for _ in range(2)
    )
    before = weights(model)
    network = sw.SparkNetwork(spark, model, master)
    network.fit(part, epochs=3)
    train_locally(local, [part] * 3)
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)
    assert abs(weights(model) - before).max() > 1e-2
    score = local.evaluate(*pair(part), verbose=0)[0]
    assert abs(network.score(part) - score) < 1e-3


def test_averaging_every_step_equals_the_large_batch_for_a_cnn(spark: Any) -> None:
    import keras

    def cnn() -> Any:
        init = keras.initializers.GlorotUniform
        model = keras.Sequential(
            [
                keras.Input((8, 8, 1)),
                keras.layers.Conv2D(4, 3, activation="relu", kernel_initializer=init(seed=1)),
                keras.layers.MaxPooling2D(),
                keras.layers.Flatten(),
                keras.layers.Dense(3, activation="softmax", kernel_initializer=init(seed=2)),
            ]
        )
        model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        return model

    random = np.random.default_rng(1)
    data = DataSet(
        random.random((40, 8, 8, 1), np.float32), random.integers(0, 3, 40).astype(np.int32)
    )
    master = sw.ParameterAveragingTrainingMaster(
        workers=4, batch_size_per_worker=10, averaging_frequency=1
    )
    model, local = cnn(), cnn()
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-8)
    sw.SparkNetwork(spark, model, master).fit(data, epochs=3)
    train_locally(local, [data] * 3)
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-6)


def test_average_is_weighted_by_minibatches(spark: Any, blobs: DataSet) -> None:
    """50 examples on 2 workers, batch 10, frequency 5: 25 each, so 3 minibatches, the last of 5."""
    import keras

    part = blobs.take(slice(0, 45))
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=10, repartition="never", shuffle=False
    )
    model = dense(keras.optimizers.SGD(0.1))
    uneven = sw.data.from_rdd(
        spark,
        spark.sparkContext.parallelize([part.take(slice(0, 35)), part.take(slice(35, 45))], 2),
    )
    sw.SparkNetwork(spark, model, master).fit(uneven)
    replicas = [dense(keras.optimizers.SGD(0.1)) for _ in range(2)]
    train_locally(replicas[0], list(part.take(slice(0, 35)).batches(10)))  # 4 minibatches
    train_locally(replicas[1], [part.take(slice(35, 45))])  # 1 minibatch
    expected = (4 * weights(replicas[0]) + weights(replicas[1])) / 5
    np.testing.assert_allclose(weights(model), expected, atol=1e-5)


def test_same_seed_gives_the_same_bits_and_another_seed_does_not(
    spark: Any, blobs: DataSet
) -> None:
    found = []
    for seed in (5, 5, 6):
        model = dense("adam")
        master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=5, seed=seed)
        sw.SparkNetwork(spark, model, master).fit(from_arrays(spark, *pair(blobs)), epochs=2)
        found.append(weights(model))
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()


@pytest.mark.parametrize("save_updater", [True, False])
def test_ring_and_spark_communication_agree(spark: Any, blobs: DataSet, save_updater: bool) -> None:
    found = []
    for communication in ("ring", "spark"):
        model = dense("adam")
        master = sw.ParameterAveragingTrainingMaster(
            workers=3,
            batch_size_per_worker=7,
            averaging_frequency=2,
            save_updater=save_updater,
            communication=communication,  # pyright: ignore[reportArgumentType]
            seed=2,
        )
        run = sw.SparkNetwork(spark, model, master).start(blobs.take(slice(0, 81)), epochs=2)
        run.wait(120)
        found.append((weights(model), run.status.averagings, len(run.log)))
        assert int(model.optimizer.iterations) == 8
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-6)
    assert found[0][1:] == found[1][1:]


@pytest.mark.usefixtures("local_trainers")
def test_parallel_wrapper_agrees_with_spark(spark: Any, blobs: DataSet) -> None:
    master = sw.ParameterAveragingTrainingMaster(
        batch_size_per_worker=7, seed=4, workers=2, mesh=sw.MeshConfig(encrypt=True)
    )
    on_spark, here = dense("adam"), dense("adam")
    sw.SparkNetwork(spark, on_spark, master).fit(blobs, epochs=2)
    with sw.ParallelWrapper(here, master, cores_per_worker=1) as wrapper:
        wrapper.fit(blobs, epochs=2)
    np.testing.assert_allclose(weights(here), weights(on_spark), atol=1e-6)


def pair(dataset: DataSet) -> tuple[Any, Any]:
    return dataset.features["features"], dataset.labels["labels"]
