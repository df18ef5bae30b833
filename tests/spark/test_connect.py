import os
import runpy
from pathlib import Path

import pytest

import sparkwright as sw
from sparkwright.cluster.connect import context_of

# Another session has RDDs of Spark itself.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.connect,
    pytest.mark.skipif("SPARKWRIGHT_TEST_CONNECT" not in os.environ, reason="`make connect`"),
]

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "spark_connect.py"
PARTS = [[0, 1, 2], [], [3], [4, 5, 6, 7]]


def numbered(spark):
    """(partition, number), in four partitions, one of them empty."""

    def of(index, _):
        return ((index, number) for number in PARTS[index])

    return context_of(spark).parallelize(range(4), 4).mapPartitionsWithIndex(of)


def classifier():
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, "softmax")])
    model.compile(keras.optimizers.SGD(0.5), "sparse_categorical_crossentropy")
    return model


def seen(rdd):
    """Elements by partition, in order."""
    found = [[] for _ in range(rdd.getNumPartitions())]

    def tagged(index, elements):
        return ((index, element) for element in elements)

    for index, element in rdd.mapPartitionsWithIndex(tagged).collect():
        found[index].append(element)
    return found


def test_partitions_and_their_indices_are_kept(spark):
    rdd = numbered(spark)
    parts = [[(index, number) for number in part] for index, part in enumerate(PARTS)]
    assert seen(rdd) == parts
    assert seen(rdd.union(rdd.map(lambda pair: (pair[0], -pair[1])))) == [
        *parts,
        *[[(index, -number) for index, number in part] for part in parts],
    ]
    assert rdd.take(4) == [(0, 0), (0, 1), (0, 2), (2, 3)]
    assert rdd.map(lambda pair: pair[1]).treeReduce(lambda a, b: a + b) == 28


def test_elements_move_to_the_partition_of_their_key(spark):
    moved = numbered(spark).map(lambda pair: (7 - pair[1], pair[0]))
    assert [sorted(part) for part in seen(moved.partitionBy(3, lambda key: key % 3))] == [
        [(0, 3), (3, 3), (6, 0)],
        [(1, 3), (4, 2), (7, 0)],
        [(2, 3), (5, 0)],
    ]
    ordered = moved.repartitionAndSortWithinPartitions(2, lambda key: key // 4)
    assert [[key for key, _ in part] for part in seen(ordered)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    joined = seen(numbered(spark).coalesce(2))
    assert [*joined[0], *joined[1]] == numbered(spark).collect()


def test_persisted_elements_are_computed_once(spark, tmp_path):
    from pyspark import StorageLevel

    folder = str(tmp_path)

    def noted(index, elements):
        with open(f"{folder}/{index}", "a") as file:
            file.write("computed\n")
        return list(elements)

    rdd = numbered(spark).mapPartitionsWithIndex(noted)
    rdd.persist(StorageLevel.MEMORY_AND_DISK)
    assert rdd.is_cached
    assert rdd.collect() == rdd.map(lambda pair: pair).collect() == numbered(spark).collect()
    assert [(tmp_path / str(n)).read_text() for n in range(4)] == ["computed\n"] * 4
    rdd.unpersist()
    assert not rdd.is_cached


def test_large_elements_are_transferred_in_parts(spark):
    content = bytes(range(256)) * (40 << 12)  # 40 MiB: three rows, and a broadcast
    large = context_of(spark).broadcast(content)
    ones = context_of(spark).parallelize([1, 2], 2).map(lambda _: large.value[::-1])
    assert ones.collect() == [content[::-1]] * 2


def test_a_server_that_keeps_no_data_and_shows_no_settings_trains(spark, monkeypatch):
    """What serverless Spark refuses is refused here by the client."""
    import pyspark.sql.connect.conf as conf
    import pyspark.sql.connect.dataframe as frames

    class RefusedError(Exception):
        pass

    def refused(*_):
        raise RefusedError("[NOT_SUPPORTED_WITH_SERVERLESS] PERSIST TABLE is not supported.")

    shown = conf.RuntimeConf.get

    def get(self, key, *default):
        if not key.startswith(("spark.sql.", "spark.python.sql.")):  # PySpark reads the latter
            raise RefusedError(f"[CONFIG_NOT_AVAILABLE] Configuration {key} is not available.")
        return shown(self, key, *default)

    monkeypatch.setattr(frames.DataFrame, "persist", refused)
    monkeypatch.setattr(frames.DataFrame, "cache", refused)
    monkeypatch.setattr(conf.RuntimeConf, "get", get)
    rows = [(float(n % 2), 1.0, n % 2) for n in range(200)]
    frame = spark.createDataFrame(rows, "a float, b float, label int")
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, communication="spark", averaging_frequency=8, seed=1
    )
    network = sw.SparkNetwork(spark, classifier(), master)
    network.fit(frame, label="label", epochs=4, validation=frame)
    assert network.evaluate(frame).accuracy > 0.9
    assert len(network.history.history["val_loss"]) == 4


def test_example_learns(spark):
    assert runpy.run_path(str(EXAMPLE))["main"](spark) > 0.9
