import keras
import numpy as np
import pytest
from tests.spark.helpers import Paced, dense, train_locally, weights
from tests.support.in_process import fit
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.errors import NonFiniteLossError

pytestmark = pytest.mark.usefixtures("in_process")


def averaging(**options):
    """Two workers; rounds of three minibatches, of whose results the third learns."""
    return sw.ParameterAveragingTrainingMaster(
        workers=2,
        batch_size_per_worker=5,
        updater="local",
        averaging_frequency=3,
        averaging_delay=2,
        seed=1,
        **options,
    )


def test_reading_a_delayed_average_waits_for_it(blobs):
    """Validations and callbacks meet the mean of all that was trained before them."""
    seen = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(weights(callback.model)),
        on_epoch_end=lambda epoch, logs: seen.append(weights(callback.model)),
    )
    features, labels = blobs.features["features"], blobs.labels["labels"]
    model = dense("adam")
    options = {"epochs": 2, "validation": blobs, "callback_frequency": 2}
    run = fit(model, averaging(), blobs, callbacks=[callback], **options)
    assert run.status.averagings == 2 * 4
    np.testing.assert_array_equal(seen[-1], weights(model))
    assert len({each.tobytes() for each in seen}) == 2 * 2
    found = run.epoch_history.history["val_loss"][-1]
    assert found == pytest.approx(model.evaluate(features, labels, verbose=0)[0], rel=1e-4)


@pytest.mark.thorough
def test_stopped_run_with_delayed_averages_has_consistent_counts(blobs):
    master = averaging().with_hooks(Paced(0.01))
    model = dense("adam")
    with sw.ParallelWrapper(model, master, cores_per_worker=1) as wrapper:
        run = wrapper.start(blobs, epochs=1000, display=False)
        wait_until(lambda: run.status.averagings >= 3, 60)
        run.stop()
        run.wait(20)
    assert run.status.state == "stopped"
    rounds = run.history.groupby(["epoch", "round"])["worker"].nunique()
    assert len(rounds) == run.status.averagings
    assert set(rounds) == {2}
    assert np.isfinite(weights(model)).all()


@pytest.mark.thorough
def test_failure_during_an_averaging_keeps_its_result(blobs):
    """The NaN comes in the second round, while the first one is averaged."""
    features = blobs.features["features"].copy()
    features[15:20] = np.nan  # the fourth minibatch
    model = dense("adam")
    master = averaging(shuffle=False)
    with sw.ParallelWrapper(model, master, cores_per_worker=1) as wrapper:
        run = wrapper.start(sw.DataSet(features, blobs.labels), display=False)
        with pytest.raises(NonFiniteLossError):
            run.wait(60)
    assert run.history.groupby("worker")["step"].max().tolist() == [3, 3]
    assert run.status.averagings == 1
    expected = dense("adam"), dense("adam")
    for worker, replica in enumerate(expected):
        train_locally(replica, list(blobs.batches(5))[12 * worker : 12 * worker + 3])
    mean = sum(map(weights, expected)) / 2
    np.testing.assert_allclose(weights(model), mean, atol=1e-5)


@pytest.mark.thorough
def test_timeline_shows_the_overlapped_averaging_time(blobs):
    master = averaging(collect_training_stats=True)
    run = fit(dense("adam"), master, blobs, epochs=3)
    averages = {t.phase.name: t.count for t in run.timeline.totals() if t.place == "workers"}
    assert averages["overlap"] == 2 * run.status.averagings
    assert "of averaging ran beside computing." in run.timeline.summary()
