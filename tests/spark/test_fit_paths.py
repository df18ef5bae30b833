import numpy as np
import pytest
from tests.spark.helpers import RecordingHook, dense, numbered, seen, weights

import sparkwright as sw


def master(**options):
    return sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=8, averaging_frequency=1, seed=1, **options
    )


def test_training_on_paths_uses_every_example_once(spark, tmp_path):
    export = sw.data.to_minibatch_files(numbered(45), tmp_path / "export", batch_size=10)
    (tmp_path / "seen").mkdir()
    network = sw.SparkNetwork(spark, dense(), master(hooks=[RecordingHook(str(tmp_path / "seen"))]))
    before = weights(network.model)
    network.fit_paths(spark.sparkContext.parallelize(export.paths, 3), validation=export)
    assert seen(tmp_path / "seen") == dict.fromkeys(range(45), 1)
    assert not np.array_equal(weights(network.model), before)


def test_training_on_an_export_equals_training_in_memory(spark, tmp_path, blobs):
    url = str(tmp_path / "export")
    sw.data.to_minibatch_files(blobs, url, batch_size=8)
    from_files = sw.data.from_minibatches(spark, url, partitions=2)
    edge = from_files.partition_counts()[0]
    pieces = [blobs.take(slice(0, edge)), blobs.take(slice(edge, 120))]
    in_memory = sw.data.from_rdd(spark, spark.sparkContext.parallelize(pieces, 2))
    one, other = dense(), dense()
    sw.SparkNetwork(spark, one, master()).fit(from_files)
    sw.SparkNetwork(spark, other, master()).fit(in_memory)
    np.testing.assert_array_equal(weights(one), weights(other))


def test_evaluating_and_scoring_paths_equals_using_the_data(spark, tmp_path, blobs):
    for number, batch in enumerate(blobs.batches(50)):
        np.savez(
            tmp_path / f"{number}.npz",
            features=batch.features["features"],
            labels=batch.labels["labels"],
        )
    pattern, loader = str(tmp_path / "*.npz"), sw.data.numpy_loader
    network = sw.SparkNetwork(spark, dense())
    wanted = network.evaluate(blobs)
    found = network.evaluate_paths(pattern, loader=loader)
    np.testing.assert_array_equal(found.confusion, wanted.confusion)
    # The sums of the loss are taken in another order.
    assert network.score_paths(pattern, loader=loader) == pytest.approx(
        network.score(blobs), rel=1e-5
    )
