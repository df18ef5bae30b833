import pytest
from tests.spark.helpers import KillOnce, RecordingHook, dense, numbered, seen

import sparkwright as sw
from sparkwright.data import TfData

ROWS = 61


def make(shard, shards):
    import tensorflow as tf

    data = numbered(ROWS)
    found = tf.data.Dataset.from_tensor_slices((data.features["features"], data.labels["labels"]))
    return found.shard(shards, shard).batch(7)


@pytest.mark.thorough
def test_shard_of_a_killed_worker_is_trained_completely(spark, tmp_path, leaves_nothing):
    hooks = RecordingHook(str(tmp_path)), KillOnce(str(tmp_path / "killed"), at=5)
    mesh = sw.MeshConfig(replacement_grace_s=60)
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=5, averaging_frequency=2, seed=1, hooks=hooks, mesh=mesh
    )
    network = sw.SparkNetwork(spark, dense(), master)
    run = network.start(TfData(make, examples=ROWS), epochs=2, validation=numbered(9))
    run.wait(120)
    assert (tmp_path / "killed").exists()
    counts = seen(tmp_path)
    assert set(counts) == set(range(ROWS))
    assert min(counts.values()) >= 2  # what had not been averaged is trained again
    assert run.history["examples"].sum() == 2 * ROWS
    assert [score.epoch for score in run.status.validation] == [1, 2]
    assert [worker.rows for worker in run.status.workers] == [31, 30]


@pytest.mark.parametrize("option", [{"communication": "spark"}, {"training_approach": "export"}])
def test_options_that_need_partitions_are_rejected(spark, option):
    master = sw.ParameterAveragingTrainingMaster(workers=2, **option)
    with pytest.raises(sw.ConfigurationError, match=f"no partitions, so `{min(option)}` must be"):
        sw.SparkNetwork(spark, dense(), master).start(TfData(make))
