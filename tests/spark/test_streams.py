import pytest
from tests.spark.helpers import dense, numbered

import sparkwright as sw
from sparkwright.data import TfData

ROWS = 61


def make(shard, shards):
    import tensorflow as tf

    data = numbered(ROWS)
    found = tf.data.Dataset.from_tensor_slices((data.features["features"], data.labels["labels"]))
    return found.shard(shards, shard).batch(7)


@pytest.mark.parametrize("option", [{"communication": "spark"}, {"training_approach": "export"}])
def test_options_that_need_partitions_are_rejected(spark, option):
    master = sw.ParameterAveragingTrainingMaster(workers=2, **option)
    with pytest.raises(sw.ConfigurationError, match=f"no partitions, so `{min(option)}` must be"):
        sw.SparkNetwork(spark, dense(), master).start(TfData(make))
