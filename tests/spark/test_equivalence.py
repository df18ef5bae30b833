import numpy as np
import pytest
from tests.spark.helpers import dense, train_locally, weights

import sparkwright as sw
from sparkwright.networks.metrics import F1


@pytest.mark.versions
def test_averaging_every_step_equals_the_large_batch(spark, blobs):
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
    x, y = part.features["features"], part.labels["labels"]
    assert abs(network.score(part) - local.evaluate(x, y, verbose=0)[0]) < 1e-3


def test_average_is_weighted_by_minibatches(spark, blobs):
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


@pytest.mark.versions
@pytest.mark.thorough(but=["two-of-three-validate"])
@pytest.mark.parametrize("validating", [39, 2], ids=["all-validate", "two-of-three-validate"])
def test_ring_and_spark_communication_agree(spark, blobs, validating):
    found, scores, validation = [], [], blobs.take(slice(81, 81 + validating))
    for communication in ("ring", "spark"):
        model = dense("adam")
        model.compile("adam", model.loss, metrics=["accuracy", F1()])
        master = sw.ParameterAveragingTrainingMaster(
            workers=3,
            batch_size_per_worker=7,
            averaging_frequency={1: 1, 2: 2},
            outer_optimizer=sw.OuterOptimizer(),
            communication=communication,
            seed=2,
        )
        network = sw.SparkNetwork(spark, model, master)
        run = network.start(blobs.take(slice(0, 81)), epochs=2, validation=validation)
        run.wait(120)
        found.append((weights(model), run.status.averagings, len(run.log)))
        scores.append([(p.epoch, p.loss, *p.metrics.values()) for p in run.status.validation])
        assert {name for p in run.status.validation for name in p.metrics} == {"accuracy", "f1"}
        assert int(model.optimizer.iterations) == 8
    # Momentum and Adam make differences of rounding larger.
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-5)
    assert found[0][1:] == found[1][1:]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4)


@pytest.mark.usefixtures("local_trainers")
def test_parallel_wrapper_agrees_with_spark(spark, blobs):
    master = sw.ParameterAveragingTrainingMaster(
        batch_size_per_worker=7, seed=4, workers=2, mesh=sw.MeshConfig(encrypt=True)
    )
    on_spark, here = dense("adam"), dense("adam")
    sw.SparkNetwork(spark, on_spark, master).fit(blobs)
    with sw.ParallelWrapper(here, master, cores_per_worker=1) as wrapper:
        wrapper.fit(blobs)
    np.testing.assert_allclose(weights(here), weights(on_spark), atol=1e-6)
