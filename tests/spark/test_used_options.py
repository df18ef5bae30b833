"""Options of a master whose effect no other test shows."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.spark.helpers import dense, numbered, partitioned, weights

import sparkwright as sw
from sparkwright.data import DataSet

pytestmark = pytest.mark.spark


def averaging(**options: Any) -> Any:
    settings: dict[str, Any] = {"workers": 2, "batch_size_per_worker": 8, "seed": 1, **options}
    return sw.ParameterAveragingTrainingMaster(**settings)


def sharing(**options: Any) -> Any:
    settings: dict[str, Any] = {"workers": 2, "batch_size_per_worker": 8, "seed": 1, **options}
    return sw.SharedTrainingMaster(**settings)


def called_with(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """The last argument of each call of the RDD method `name`, which is called as before."""
    from pyspark import RDD

    found: list[Any] = []
    original = getattr(RDD, name)

    def recording(*arguments: Any) -> Any:
        found.append(arguments[-1])
        return original(*arguments)

    monkeypatch.setattr(RDD, name, recording)
    return found


@pytest.mark.thorough(but=["averaging"])
@pytest.mark.parametrize("make", [averaging, sharing])
def test_uncounted_data_and_paths_are_persisted_at_their_levels(
    spark: Any, monkeypatch: pytest.MonkeyPatch, leaves_nothing: None, make: Any
) -> None:
    from pyspark import StorageLevel

    levels = called_with(monkeypatch, "persist")
    master = make(
        training_approach="export", storage_level="DISK_ONLY", storage_level_paths="MEMORY_ONLY"
    )
    network = sw.SparkNetwork(spark, dense(), master)
    network.fit(partitioned(spark, [20, 13]))
    assert levels == [StorageLevel.DISK_ONLY, StorageLevel.MEMORY_ONLY]
    assert network.delete_temp_files()


@pytest.mark.thorough(but=["averaging"])
@pytest.mark.parametrize("make", [averaging, sharing])
def test_minibatches_are_exported_to_the_export_directory(
    spark: Any, tmp_path: Path, make: Any
) -> None:
    master = make(training_approach="export", export_directory=str(tmp_path / "export"))
    network = sw.SparkNetwork(spark, dense(), master)
    network.fit(numbered(33))
    assert list((tmp_path / "export").rglob("*.arrow"))
    assert network.delete_temp_files()
    assert not list((tmp_path / "export").rglob("*.arrow"))


@pytest.mark.thorough(but=["1"])
@pytest.mark.parametrize("depth", [1, 3])
def test_averages_are_aggregated_at_the_given_depth(
    spark: Any, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    depths = called_with(monkeypatch, "treeAggregate")
    master = averaging(communication="spark", aggregation_depth=depth)
    sw.SparkNetwork(spark, dense(), master).fit(numbered(16))
    assert set(depths) == {depth}


@pytest.mark.thorough
def test_seed_determines_the_order_of_examples(spark: Any, blobs: DataSet) -> None:
    def trained(seed: int) -> Any:
        model = dense()
        sw.SparkNetwork(spark, model, averaging(workers=1, seed=seed)).fit(blobs, epochs=2)
        return weights(model)

    first = trained(1)
    np.testing.assert_array_equal(trained(1), first)
    assert not np.array_equal(trained(2), first)


def test_generated_seed_is_stored_with_the_run(spark: Any) -> None:
    run = sw.SparkNetwork(spark, dense(), averaging(seed=None)).start(numbered(16))
    run.wait(60)
    assert isinstance(run.configuration["master"]["seed"], int)


class CollectsGarbage:
    """Writes down whether Python collects garbage by itself while a worker trains."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def pre_update(self, minibatch: Any, model: Any) -> None:
        del minibatch, model
        (Path(self.folder) / str(gc.isenabled())).touch()

    def post_update(self, minibatch: Any, model: Any) -> None:
        del minibatch, model


@pytest.mark.thorough(but=["True"])
@pytest.mark.parametrize("periodic", [True, False])
def test_workers_collect_garbage_only_periodically(
    spark: Any, tmp_path: Path, periodic: bool
) -> None:
    master = sharing(periodic_gc=periodic).with_hooks(CollectsGarbage(str(tmp_path)))
    sw.SparkNetwork(spark, dense(), master).fit(numbered(16))
    assert [file.name for file in tmp_path.iterdir()] == [str(not periodic)]


def test_paths_are_read_by_a_custom_loader(spark: Any, tmp_path: Path, blobs: DataSet) -> None:
    for number, batch in enumerate(blobs.batches(30)):
        table = np.column_stack([batch.features["features"], batch.labels["labels"]])
        np.savetxt(tmp_path / f"{number}.txt", table)

    def load(source: sw.data.MinibatchSource) -> DataSet:
        with source.open() as file:
            table = np.loadtxt(file)
        return DataSet(table[:, :4].astype(np.float32), table[:, 4].astype(np.int32))

    model = dense()
    network = sw.SparkNetwork(spark, model, averaging(averaging_frequency=1))
    before = network.evaluate(blobs).accuracy
    network.fit_paths(str(tmp_path / "*.txt"), loader=load, epochs=10)
    assert network.evaluate(blobs).accuracy > before


def test_labeled_points_train_and_the_history_is_written_as_parquet(
    spark: Any, tmp_path: Path, blobs: DataSet
) -> None:
    from pyspark.mllib.regression import LabeledPoint

    rows = zip(blobs.labels["labels"].tolist(), blobs.features["features"].tolist(), strict=True)
    points = spark.sparkContext.parallelize([LabeledPoint(*row) for row in rows], 2)
    pairs = points.map(lambda point: (point.features.toArray(), int(point.label)))
    network = sw.SparkNetwork(spark, dense(), averaging())
    run = network.start(sw.data.from_rdd(spark, pairs))
    run.wait(60)
    assert network.spark.sparkContext is spark.sparkContext
    assert run.history["examples"].sum() == 120
    run.history.to_parquet(tmp_path / "history.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "history.parquet"), run.history)


def test_autoencoder_learns_to_reproduce_its_input(spark: Any, blobs: DataSet) -> None:
    import keras

    features = blobs.features["features"]
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(2, activation="tanh"), keras.layers.Dense(4)]
    )
    model.compile("adam", "mse")
    network = sw.SparkNetwork(spark, model, averaging(averaging_frequency=1))
    data = DataSet(features, features)
    before = network.score(data)
    network.fit(data, epochs=8)
    assert network.score(data) < before
