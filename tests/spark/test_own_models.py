import cloudpickle
import keras
import pyspark.cloudpickle
import pytest
from tests.support import own_models
from tests.support.own_models import OwnTrainStep, Undescribed, compiled

import sparkwright as sw


@pytest.fixture(scope="module", autouse=True)
def _by_value():
    for module in (cloudpickle, pyspark.cloudpickle):
        module.register_pickle_by_value(own_models)
    yield
    for module in (cloudpickle, pyspark.cloudpickle):
        module.unregister_pickle_by_value(own_models)


@pytest.mark.thorough
def test_custom_train_steps_run_with_spark_communication(spark, blobs):
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=10, averaging_frequency=2, seed=1, communication="spark"
    )
    network = sw.SparkNetwork(spark, compiled(OwnTrainStep()), master)
    run = network.start(blobs, epochs=2, display=False)
    run.wait(120)
    assert run.history["largest"].iloc[-1] > 0
    losses = run.history.groupby("epoch")["loss"].mean()
    assert losses.iloc[-1] < losses.iloc[0]


def test_model_that_cannot_be_built_raises_before_spark_starts_a_job(spark, blobs, monkeypatch):
    def refused(*_, **__):
        raise AssertionError("a job of Spark")

    data = sw.data.from_arrays(spark, blobs.features, blobs.labels)
    monkeypatch.setattr("sparkwright.spark._layout.run_job", refused)
    monkeypatch.setattr("sparkwright.spark._network.SparkLauncher", refused)
    master = sw.ParameterAveragingTrainingMaster(workers=2)
    network = sw.SparkNetwork(spark, compiled(Undescribed(keras.ops.abs)), master)
    with pytest.raises(sw.ConfigurationError, match="Keras cannot serialize it"):
        network.fit(data)
    wrong = Undescribed(keras.ops.abs)
    wrong.compile("sgd", "mse", ["accuracy"])
    network = sw.SparkNetwork(spark, wrong, master)
    for call in (network.fit, network.score):
        with pytest.raises(sw.ConfigurationError, match="`loss_weights`, the third argument"):
            call(data)
