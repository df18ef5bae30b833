import gc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.spark.helpers import Hook, dense, numbered, partitioned

import sparkwright as sw

SMALL = {"workers": 2, "batch_size_per_worker": 8, "seed": 1}


def averaging(**options):
    return sw.ParameterAveragingTrainingMaster(**{**SMALL, **options})


def sharing(**options):
    return sw.SharedTrainingMaster(**{**SMALL, **options})


def called_with(monkeypatch, name):
    """The last argument of each call of the RDD method `name`, which is called as before."""
    from pyspark import RDD

    found = []
    original = getattr(RDD, name)

    def recording(*arguments):
        found.append(arguments[-1])
        return original(*arguments)

    monkeypatch.setattr(RDD, name, recording)
    return found


def test_uncounted_data_and_paths_are_persisted_at_their_levels(spark, monkeypatch, leaves_nothing):
    from pyspark import StorageLevel

    levels = called_with(monkeypatch, "persist")
    master = averaging(
        training_approach="export", storage_level="DISK_ONLY", storage_level_paths="MEMORY_ONLY"
    )
    network = sw.SparkNetwork(spark, dense(), master)
    network.fit(partitioned(spark, [20, 13]))
    assert levels == [StorageLevel.DISK_ONLY, StorageLevel.MEMORY_ONLY]
    assert network.delete_temp_files()


def test_minibatches_are_exported_to_the_export_directory(spark, tmp_path):
    master = sharing(training_approach="export", export_directory=str(tmp_path / "export"))
    network = sw.SparkNetwork(spark, dense(), master)
    network.fit(numbered(33))
    (first,) = (tmp_path / "export").iterdir()
    network.fit(numbered(33))  # removes the files of the earlier run
    (second,) = (tmp_path / "export").iterdir()
    assert first != second
    assert list(second.rglob("*.arrow"))
    assert network.delete_temp_files()
    assert not list((tmp_path / "export").rglob("*.arrow"))


def test_averages_are_aggregated_at_the_given_depth(spark, monkeypatch):
    depths = called_with(monkeypatch, "treeAggregate")
    master = averaging(communication="spark", aggregation_depth=3)
    sw.SparkNetwork(spark, dense(), master).fit(numbered(16))
    assert set(depths) == {3}


def test_generated_seed_is_stored_with_the_run(spark):
    run = sw.SparkNetwork(spark, dense(), averaging(seed=None)).start(numbered(16))
    run.wait(60)
    assert isinstance(run.configuration["master"]["seed"], int)


class CollectsGarbage(Hook):
    """Writes down whether Python collects garbage by itself while a worker trains."""

    def __init__(self, folder):
        self.folder = str(folder)

    def pre_update(self, minibatch, model):
        (Path(self.folder) / str(gc.isenabled())).touch()


@pytest.mark.thorough(but=["True"])
@pytest.mark.parametrize("periodic", [True, False])
def test_workers_collect_garbage_only_periodically(spark, tmp_path, periodic):
    master = sharing(periodic_gc=periodic).with_hooks(CollectsGarbage(tmp_path))
    sw.SparkNetwork(spark, dense(), master).fit(numbered(16))
    assert [file.name for file in tmp_path.iterdir()] == [str(not periodic)]


def test_paths_are_read_by_a_custom_loader(spark, tmp_path, blobs):
    for number, batch in enumerate(blobs.batches(30)):
        table = np.column_stack([batch.features["features"], batch.labels["labels"]])
        np.savetxt(tmp_path / f"{number}.txt", table)

    def load(source):
        with source.open() as file:
            table = np.loadtxt(file)
        return sw.DataSet(table[:, :4].astype(np.float32), table[:, 4].astype(np.int32))

    model = dense()
    network = sw.SparkNetwork(spark, model, averaging(averaging_frequency=1))
    before = network.evaluate(blobs).accuracy
    network.fit_paths(str(tmp_path / "*.txt"), loader=load, epochs=5)
    assert network.evaluate(blobs).accuracy > before


def test_labeled_points_train_and_the_history_is_written_as_parquet(spark, tmp_path, blobs):
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
