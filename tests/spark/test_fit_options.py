import keras
import numpy as np
import pytest
from tests.spark.helpers import dense, weights

import sparkwright as sw


def halved():
    return keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch else rate)


@pytest.mark.thorough
def test_ring_and_spark_communication_agree_with_callbacks(spark, blobs):
    found = []
    for communication in ("ring", "spark"):
        master = sw.ParameterAveragingTrainingMaster(
            workers=2, batch_size_per_worker=10, seed=1, communication=communication
        )
        model = dense(keras.optimizers.SGD(0.1))
        network = sw.SparkNetwork(spark, model, master)
        stops = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs, model=model: setattr(
                model, "stop_training", epoch == 1
            )
        )
        seen = []
        halves = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, model=model, seen=seen: (
                seen.append((batch, logs["loss"], *weights(model))),
                setattr(model.optimizer, "learning_rate", 0.1 / (batch + 1)),
            )
        )
        network.fit(
            blobs,
            epochs=9,
            callbacks=[halved(), stops, halves],
            callback_frequency=1,
            class_weight={0: 2.0},
            steps_per_epoch=9,
            display=False,
        )
        found.append((weights(model), seen, *network.history.history.values()))
    assert [batch for batch, *_ in found[0][1]].count(8) == 2
    for ring, by_spark in zip(*found, strict=True):
        np.testing.assert_allclose(ring, by_spark, atol=1e-5)
    assert len(network.history.history["loss"]) == 2


@pytest.mark.thorough
@pytest.mark.connect
def test_dataframe_weight_column_equals_a_weight_array(spark, blobs):
    trust = np.linspace(0, 2, len(blobs), dtype=np.float32)
    x, y = blobs.features["features"].tolist(), blobs.labels["labels"].tolist()
    rows = list(zip(x, y, trust.tolist(), strict=True))
    frame = spark.createDataFrame(rows, "features array<float>, label int, trust float")
    master = sw.ParameterAveragingTrainingMaster(workers=1, batch_size_per_worker=40, shuffle=False)
    models = [dense(keras.optimizers.SGD(0.1)) for _ in range(2)]
    for model, data, given in zip(models, (frame, blobs), ("trust", trust), strict=True):
        network = sw.SparkNetwork(spark, model, master)
        network.fit(data, sample_weight=given, display=False)
        if data is frame:
            with pytest.raises(sw.ConfigurationError, match=r"name of a column.*ndarray \(120,\)"):
                network.fit(frame, sample_weight=trust)
    np.testing.assert_allclose(weights(models[0]), weights(models[1]), atol=1e-5)
