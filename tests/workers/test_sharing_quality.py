import keras
import numpy as np
import pytest
from sklearn.datasets import load_iris
from tests.spark.helpers import dense
from tests.support.in_process import fit

import sparkwright as sw


def loss(workers, *, seed):
    """The loss of ten epochs with Adam on the 150 flowers; without workers by `model.fit`."""
    bunch = load_iris()
    order = np.random.default_rng(seed).permutation(len(bunch.data))
    columns = (bunch.data - bunch.data.mean(0)) / bunch.data.std(0)
    x, y = columns[order].astype(np.float32), bunch.target[order].astype(np.int32)
    keras.utils.set_random_seed(seed)
    model = dense(keras.optimizers.Adam(5e-3), seed=seed)
    if workers:
        master = sw.SharedTrainingMaster(workers=workers, batch_size_per_worker=5, seed=seed)
        fit(model, master, sw.DataSet(x, y), epochs=10)
    else:
        model.fit(x, y, verbose=0, batch_size=5, epochs=10)
    return float(model.evaluate(x, y, verbose=0, batch_size=500)[0])


@pytest.mark.thorough
@pytest.mark.usefixtures("in_process")
def test_defaults_reach_the_loss_of_plain_keras():
    plain = [loss(0, seed=seed) for seed in range(2)]
    shared = [loss(4, seed=seed) for seed in range(2)]
    # On three seeds it was 0.96; from run to run and seed to seed the ratio varies by 5 %.
    # With nothing sent, or with `combine="mean"`, the loss is twice as high.
    assert np.mean(shared) <= 1.12 * np.mean(plain)
