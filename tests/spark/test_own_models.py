"""Models with code of their own, on executors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
import pyspark.cloudpickle
import pytest
from tests.spark.helpers import weights
from tests.support import own_models
from tests.support.own_models import OwnTrainStep, Undescribed, compiled, gan, undescribed

import sparkwright as sw
from sparkwright.data import DataSet
from sparkwright.errors import ConfigurationError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def _by_value() -> Iterator[None]:
    for module in (cloudpickle, pyspark.cloudpickle):
        module.register_pickle_by_value(own_models)
    yield
    for module in (cloudpickle, pyspark.cloudpickle):
        module.unregister_pickle_by_value(own_models)


def master(**options: Any) -> sw.ParameterAveragingTrainingMaster:
    return sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=10, averaging_frequency=2, seed=1, **options
    )


def test_a_function_builds_the_model_on_executors(
    spark: Any, blobs: DataSet, tmp_path: Path
) -> None:
    network = sw.SparkNetwork(spark, undescribed, master())
    network.fit(blobs, epochs=5)
    assert network.evaluate(blobs).accuracy > 0.8
    features = blobs.features["features"]
    expected = network.model.predict(features, verbose=0)
    np.testing.assert_allclose(network.predict(features), expected, atol=1e-5)
    assert network.score(blobs) == pytest.approx(
        network.model.evaluate(features, blobs.labels["labels"], verbose=0)[0], rel=1e-4
    )
    url = str(tmp_path / "model.keras")
    network.save(url)
    again = sw.SparkNetwork.load(spark, url, build_model=undescribed)
    np.testing.assert_array_equal(weights(again.model), weights(network.model))
    np.testing.assert_allclose(again.predict(features), expected, atol=1e-5)


def test_train_steps_run_in_rounds_of_spark(spark: Any, blobs: DataSet) -> None:
    network = sw.SparkNetwork(spark, compiled(OwnTrainStep()), master(communication="spark"))
    run = network.start(blobs, epochs=3, display=False)
    run.wait(120)
    assert run.history["largest"].iloc[-1] > 0
    losses = run.history.groupby("epoch")["loss"].mean()
    assert losses.iloc[-1] < losses.iloc[0]


def test_a_gan_trains_on_executors(spark: Any, blobs: DataSet) -> None:
    network = sw.SparkNetwork(spark, gan, master())
    network.fit(DataSet(blobs.features), epochs=1)
    assert int(network.model.g_optimizer.iterations) == 2 * int(
        network.model.d_optimizer.iterations
    )
    with pytest.raises(ConfigurationError, match="Give the class a `call`"):
        network.predict(blobs.features["features"])


def test_what_cannot_be_built_is_refused_before_spark_does_anything(
    spark: Any, blobs: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a job of Spark")

    data = sw.data.from_arrays(spark, blobs.features, blobs.labels)
    monkeypatch.setattr("sparkwright.spark._layout.run_job", refused)
    monkeypatch.setattr("sparkwright.spark._network.SparkLauncher", refused)
    network = sw.SparkNetwork(spark, compiled(Undescribed(keras.ops.abs)), master())
    with pytest.raises(ConfigurationError, match="cannot be written as a configuration"):
        network.fit(data)
