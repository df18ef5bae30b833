from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from pyspark import Broadcast
from pyspark.serializers import CloudPickleSerializer
from tests.spark.helpers import weights

import sparkwright as sw
from sparkwright.cluster import shared_bytes
from sparkwright.cluster.shared_bytes import PART_BYTES, SharedBytes
from sparkwright.data import from_bytes


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, 2 * PART_BYTES + 7])
def test_no_broadcast_holds_more_than_a_part(size):
    content = np.random.default_rng(size).bytes(size)
    context = SimpleNamespace(broadcast=lambda value: SimpleNamespace(value=value))
    shared = SharedBytes.of(context, content)
    assert all(len(part) <= PART_BYTES for part in shared)
    assert b"".join(shared) == content


def test_a_partition_of_140_mib_is_distributed(spark):
    features = np.zeros((36, 1 << 20), np.float32)
    features[:, 0] = range(36)
    data = sw.data.from_arrays(spark, features, partitions=1)
    first = data.rdd.flatMap(lambda chunk: from_bytes(chunk).features["features"][:, 0].tolist())
    assert first.collect() == [*range(36)]


@pytest.fixture
def sizes(monkeypatch):
    """The size in bytes of everything that goes through the driver's JVM, which holds it whole."""
    found = []
    dump, dumps, loads = Broadcast.dump, CloudPickleSerializer.dumps, CloudPickleSerializer.loads

    def dump_measured(self, value, file):
        dump(self, value, file)
        found.append(Path(file.name).stat().st_size)

    def dumps_measured(self, value):
        found.append(len(content := dumps(self, value)))
        return content

    def loads_measured(self, content, *rest):
        found.append(len(content))
        return loads(self, content, *rest)

    monkeypatch.setattr(Broadcast, "dump", dump_measured)
    monkeypatch.setattr(CloudPickleSerializer, "dumps", dumps_measured)
    monkeypatch.setattr(CloudPickleSerializer, "loads", loads_measured)
    return found


@pytest.mark.parametrize("communication", ["spark", "ring"])
def test_nothing_large_goes_through_the_driver_s_jvm(spark, monkeypatch, sizes, communication):
    """Parts are of 64 KiB here, and the model is of 400 KB."""
    features = np.random.default_rng(0).normal(size=(12, 1000)).astype(np.float32)
    data = sw.DataSet(features, np.zeros((12, 100), np.float32))
    found = []
    for part_bytes in (1 << 16, PART_BYTES):
        sizes.clear()
        monkeypatch.setattr(shared_bytes, "PART_BYTES", part_bytes)
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((1000,)), keras.layers.Dense(100)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        master = sw.ParameterAveragingTrainingMaster(
            workers=2, batch_size_per_worker=2, communication=communication, seed=3
        )
        network = sw.SparkNetwork(spark, model, master)
        network.fit(data, epochs=2, validation=data)
        scores = network.score(data), network.predict(features)
        found.append((weights(model), *scores, max(sizes)))
    for parted, whole in zip(*(each[:3] for each in found), strict=True):
        np.testing.assert_array_equal(parted, whole)
    assert found[0][3] < 100_000 < 400_000 < found[1][3]
