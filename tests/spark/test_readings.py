import keras
import numpy as np
import pytest
from tests.spark.helpers import dense, train_locally, weights

import sparkwright as sw

FIXED = {"batch_size_per_worker": 10, "shuffle": False, "workers": 2, "prefetch_batches": 0}


def scheduled():
    return dense(keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)))


def first_ratio(blobs, *, minibatches):
    """Of worker 0's first minibatches, trained here."""
    model = scheduled()
    before = weights(model)
    train_locally(model, list(blobs.take(slice(0, 60)).batches(10))[:minibatches])
    change = np.linalg.norm(weights(model) - before)
    return float(change / np.linalg.norm(before)) / minibatches


@pytest.mark.thorough
def test_spark_averaging_reports_rate_and_ratio_of_its_rounds(spark, blobs):
    master = sw.ParameterAveragingTrainingMaster(
        **FIXED, averaging_frequency=2, communication="spark"
    )
    wanted = sw.Histograms(every=1, of=("weights", "updates", "activations"))
    model = scheduled()
    run = sw.SparkNetwork(spark, model, master).start(blobs, epochs=1, histograms=wanted)
    run.wait(60)
    history = run.history
    for worker in (0, 1):
        rows = history[history.worker == worker].sort_values("step")
        # Of each round's last minibatch: the second, fourth and sixth step of the schedule.
        np.testing.assert_allclose(
            rows.learning_rate, [np.nan, 0.25, np.nan, 0.0625, np.nan, 0.015625], rtol=1e-6
        )
        assert np.isnan(rows.update_ratio).tolist() == [True, False] * 3
    first = history[(history.worker == 0) & (history.step == 2)].update_ratio.item()
    assert first == pytest.approx(first_ratio(blobs, minibatches=2), rel=1e-3)
    for worker in run.status.workers:
        assert (worker.device, worker.partition) == ("CPU", worker.worker)
        assert worker.pid > 0
        assert worker.host
    found = run.histograms
    assert found.count == 3
    for name, variable in zip(found.names["weights"], model.trainable_variables, strict=True):
        last = found.of(name)[-1][1]
        values = variable.numpy()
        assert (last.low, last.high) == pytest.approx((values.min(), values.max()), abs=1e-6)
    assert found.names["updates"] == found.names["weights"]
    assert found.notes == ('Activations need `communication="ring"` or "driver".',)
