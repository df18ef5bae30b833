from types import SimpleNamespace

import numpy as np
import pytest

import sparkwright as sw
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


@pytest.mark.thorough
def test_a_stage_of_140_mb_is_saved_and_loaded(spark, tmp_path):
    import keras

    from sparkwright.ml import KerasModel

    model = keras.Sequential([keras.Input((35,)), keras.layers.Dense(1_000_000)])
    KerasModel(model=model).save(str(tmp_path / "stage"))
    loaded = KerasModel.load(str(tmp_path / "stage")).saved_model()
    np.testing.assert_array_equal(loaded.get_weights()[0], model.get_weights()[0])
