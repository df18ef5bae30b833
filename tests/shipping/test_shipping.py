import sys
from pathlib import Path

import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.cluster.engine_archive import own_engine
from sparkwright.cluster.engine_shipping import check_same, ensure_engine

OWN = {"where": "/kit/sparkwright", "version": "0.2.0", "fingerprint": "aaa"}
MODULE = """
import keras

class Doubled(keras.layers.Layer):
    def call(self, inputs):
        return factor() * inputs

def factor():
    return 2.0
"""


def there(**changes):
    return {**OWN, "host": "node7", **changes}


@pytest.fixture
def own_layers(tmp_path, monkeypatch):
    """A module that the driver finds and executors do not."""
    import importlib

    (tmp_path / "layers_beside_a_notebook.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("layers_beside_a_notebook")
    for name in ("cloudpickle", "pyspark.cloudpickle"):
        registry = importlib.import_module(name)
        if "layers_beside_a_notebook" in registry.list_registry_pickle_by_value():
            registry.unregister_pickle_by_value(sys.modules["layers_beside_a_notebook"])
    del sys.modules["layers_beside_a_notebook"]


def network_with(spark, layers):
    import keras

    outputs = keras.layers.Dense(3, activation="softmax")
    model = keras.Sequential([keras.Input((4,)), layers.Doubled(), outputs])
    model.compile("sgd", "sparse_categorical_crossentropy")
    master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=10)
    return sw.SparkNetwork(spark, model, master)


@cases(
    "changes, told",
    ({"version": "0.1.0", "fingerprint": "bbb"}, "0.1.0 (fingerprint bbb, /kit/sparkwright)"),
    ({"where": "", "version": "", "fingerprint": ""}, "executor on node7 none"),
)
def test_an_executor_with_another_engine_is_named_with_both_versions(changes, told):
    with pytest.raises(sw.ConfigurationError) as error:
        check_same(OWN, [there(), there(**changes)])
    assert told in str(error.value)
    assert "driver 0.2.0 (fingerprint aaa" in str(error.value)
    assert "spark.sparkwright.ship=never" in str(error.value)


def test_executors_that_import_the_drivers_own_files_are_sent_nothing(spark):
    ensure_engine(spark)
    assert not [n for n in spark.sparkContext._python_includes if n.startswith("sparkwright-")]
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sw.__file__).collect()
    assert found == [sw.__file__]
    assert own_engine()["where"] == str(Path(sw.__file__).parent)


def test_layers_of_a_module_beside_the_notebook_train_when_sent_by_value(spark, own_layers, blobs):
    network = network_with(spark, own_layers)
    with pytest.raises(sw.errors.WorkerError, match="send_by_value"):
        network.fit(blobs)
    sw.spark.send_by_value(own_layers)
    network = network_with(spark, own_layers)
    network.fit(blobs, epochs=2)
    assert network.score(blobs) > 0


@cases("module", "layers", sw, sw.data)
def test_modules_not_of_the_user_raise(module):
    with pytest.raises(sw.ConfigurationError, match="Received"):
        sw.spark.send_by_value(module)
