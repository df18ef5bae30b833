"""Gradient sharing on real executors: what is trained, by whom, and what comes of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.spark.helpers import (
    RecordingHook,
    Slow,
    Stuck,
    dense,
    partitioned,
    seen,
    weights,
)
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.data import DataSet

pytestmark = pytest.mark.spark


def master_of(workers: int | None = 2, **options: Any) -> sw.SharedTrainingMaster:
    settings: dict[str, Any] = {
        "batch_size_per_worker": 5,
        "seed": 1,
        "threshold": sw.AdaptiveThreshold(initial=1e-3),
        **options,
    }
    return sw.SharedTrainingMaster(workers=workers, **settings)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ([97], {"workers": 3, "batch_size_per_worker": 7}),  # primes
        ([2], {"workers": 4}),  # fewer examples than workers
        ([0, 31, 0, 2], {"workers": 4, "repartition": "never", "batch_size_per_worker": 4}),
        ([23], {"workers": 1}),
        ([40, 3], {"prefetch_batches": 0, "max_staleness": 0}),
        ([40, 3], {"piece_minibatches": 3, "combine": "mean", "per_variable_thresholds": True}),
        ([23, 8], {"training_approach": "export", "batch_size_per_worker": 4}),
        ([60], {"workers": 4, "mesh": sw.MeshConfig(mode="mesh", max_downstreams=2, encrypt=True)}),
        ([60], {"minibatches_per_message": 1, "prefetch_batches": 1}),
        ([60], {"minibatches_per_message": 3, "piece_minibatches": 4}),
        ([60], {"residual_clipping": None, "encoding_debug_mode": True, "periodic_gc": False}),
    ],
    ids=str,
)
def test_every_example_is_trained_once_an_epoch(
    spark: Any, tmp_path: Path, leaves_nothing: None, sizes: list[int], options: dict[str, Any]
) -> None:
    hook = RecordingHook(str(tmp_path))
    master = master_of(**{"workers": 2, **options}).with_hooks(hook)
    network = sw.SparkNetwork(spark, dense(), master)
    run = network.start(partitioned(spark, sizes), epochs=2)
    run.wait(60)
    assert seen(tmp_path) == dict.fromkeys(range(sum(sizes)), 2)
    assert run.history["examples"].sum() == 2 * sum(sizes)
    assert run.status.averagings == 2  # the workers met after each epoch
    assert network.delete_temp_files()


def test_the_loss_falls_and_the_encoding_is_told(
    spark: Any, blobs: DataSet, leaves_nothing: None
) -> None:
    model = dense()
    run = sw.SparkNetwork(spark, model, master_of()).start(blobs, epochs=10, validation=blobs)
    run.wait(60)
    history = run.history
    first, last = (history[history["epoch"] == epoch]["loss"].mean() for epoch in (1, 10))
    assert last < 0.7 * first
    assert [point.epoch for point in run.status.validation] == list(range(1, 11))
    assert run.status.validation[-1].loss < 0.7 * run.status.validation[0].loss
    for column in ("threshold", "sparsity", "message_bytes", "staleness"):
        assert np.isfinite(history[column]).all(), column
    assert (history["threshold"] > 0).all()
    assert (history["staleness"] >= 0).all()
    assert history["residual_max"].max() > 0
    # A message never exceeds a bitmap: words of 16 elements, a header, and the clock before it.
    assert history["message_bytes"].max() < 4 * (model.count_params() / 16 + 6) + 8
    for worker in run.status.workers:
        assert worker.sent_bytes > 0
        assert worker.threshold is not None


def test_all_workers_end_with_the_same_shared_parameters(
    spark: Any, blobs: DataSet, tmp_path: Path
) -> None:
    """Whoever delivers: what is delivered is the mean over all, and it scores as they did."""
    model = dense("adam")
    run = sw.SparkNetwork(spark, model, master_of(workers=4)).start(blobs, epochs=20)
    run.wait(60)
    x, y = blobs.features["features"], blobs.labels["labels"]
    assert model.evaluate(x, y, verbose=0)[1] > 0.8
    assert int(model.optimizer.iterations) >= run.history.groupby("worker")["step"].max().max()


def test_bounded_staleness_keeps_a_fast_worker_back(spark: Any, blobs: DataSet) -> None:
    """One worker sleeps in every minibatch: the other may be two minibatches ahead, no more."""
    master = master_of(max_staleness=2).with_hooks(SlowWorkerZero())
    run = sw.SparkNetwork(spark, dense(), master).start(blobs, epochs=2)
    run.wait(60)
    assert run.history["staleness"].max() <= 4  # told after the two minibatches that were allowed
    unbounded = master_of().with_hooks(SlowWorkerZero())
    run = sw.SparkNetwork(spark, dense(), unbounded).start(blobs, epochs=2)
    run.wait(60)
    assert run.history["staleness"].max() > 4


def test_a_slow_worker_does_not_hold_up_the_epoch(
    spark: Any, blobs: DataSet, leaves_nothing: None
) -> None:
    """Others take pieces off its end: it trains far less than half of the minibatches."""
    master = master_of(piece_minibatches=1).with_hooks(SlowWorkerZero())
    run = sw.SparkNetwork(spark, dense(), master).start(blobs, epochs=3)
    run.wait(60)
    steps = run.history.groupby("worker")["step"].max()
    assert run.history["examples"].sum() == 3 * 120
    assert steps[0] < steps[1] / 2


def test_in_averaging_too_work_can_be_shared(spark: Any, blobs: DataSet) -> None:
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=5, averaging_frequency=4, share_work=True
    ).with_hooks(SlowWorkerZero())
    run = sw.SparkNetwork(spark, dense(), master).start(blobs, epochs=3)
    run.wait(60)
    steps = run.history.groupby("worker")["step"].max()
    assert run.history["examples"].sum() == 3 * 120
    assert steps[0] < steps[1] / 2


class SlowWorkerZero:
    """Makes worker 0 slow, found by its shuffle: the first process to take the marker."""

    def __init__(self) -> None:
        self.slow: bool | None = None

    def pre_update(self, minibatch: Any, model: Any) -> None:
        del minibatch, model
        import sys
        import time

        if self.slow is None:
            frame = sys._getframe()
            while frame is not None and self.slow is None:
                owner = frame.f_locals.get("self")
                settings = getattr(owner, "_settings", None)
                if settings is not None:
                    self.slow = settings.worker == 0
                frame = frame.f_back
        if self.slow:
            time.sleep(0.1)

    def post_update(self, minibatch: Any, model: Any) -> None:
        del minibatch, model


def test_stop_keeps_what_was_learnt(spark: Any, blobs: DataSet, leaves_nothing: None) -> None:
    model = dense()
    before = weights(model)
    run = sw.SparkNetwork(spark, model, master_of().with_hooks(Slow())).start(blobs, epochs=500)
    wait_until(lambda: run.status.epoch >= 2, 60)
    run.stop()
    run.wait(20)
    assert run.status.state == "stopped"
    assert abs(weights(model) - before).max() > 0
    assert int(model.optimizer.iterations) > 0


def test_an_interrupt_in_a_long_step_keeps_what_is_shared(
    spark: Any, blobs: DataSet, leaves_nothing: None, tmp_path: Path
) -> None:
    marker = tmp_path / "slow"
    model = dense()
    before = weights(model)
    run = sw.SparkNetwork(spark, model, master_of().with_hooks(Stuck(str(marker)))).start(
        blobs, epochs=500
    )
    wait_until(lambda: run.status.epoch >= 2, 60)
    marker.write_text("from now on each step takes a minute")
    wait_until(lambda: all(w.last_heard_s < 2 for w in run.status.workers), 5)
    run._stop_now()
    assert run.finished
    assert abs(weights(model) - before).max() > 0


def test_a_loss_that_is_no_number_stops_the_run_and_the_rest_is_kept(spark: Any) -> None:
    """With all that could carry it on: Adam's moments, BatchNormalization's statistics."""
    import keras

    features = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
    features[90:] = np.nan  # of worker 1
    data = DataSet(features, np.arange(120, dtype=np.int32) % 3)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    with pytest.raises(sw.NonFiniteLossError, match=r"the loss became nan in epoch 1"):
        sw.SparkNetwork(spark, model, master_of(shuffle=False)).fit(data)
    for variable in (*model.variables, *model.optimizer.variables):
        assert np.isfinite(variable.numpy()).all(), variable.path


def test_what_one_run_wants_of_the_replica_does_not_stay(spark: Any, blobs: DataSet) -> None:
    """The same warm replica serves averaging, then sharing by the mean, then averaging again."""
    averaging = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=5, seed=1)
    first, second = dense("adam"), dense("adam")
    sw.SparkNetwork(spark, first, averaging).fit(blobs)
    sw.SparkNetwork(spark, dense("adam"), master_of(combine="mean")).fit(blobs)
    sw.SparkNetwork(spark, second, averaging).fit(blobs)
    np.testing.assert_array_equal(weights(first), weights(second))


def test_batch_normalisation_and_lstm_train(spark: Any, leaves_nothing: None) -> None:
    import keras

    random = np.random.default_rng(0)
    labels = np.arange(160, dtype=np.int32) % 2
    series = random.normal(size=(160, 6, 3)) + labels[:, None, None]
    data = DataSet(series.astype(np.float32), labels)
    keras.utils.set_random_seed(1)
    recurrent = keras.Sequential(
        [keras.Input((6, 3)), keras.layers.LSTM(8), keras.layers.Dense(2, activation="softmax")]
    )
    normalised = keras.Sequential(
        [
            keras.Input((6, 3)),
            keras.layers.Flatten(),
            keras.layers.Dense(8),
            keras.layers.BatchNormalization(momentum=0.5),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    for model in (recurrent, normalised):
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        master = master_of(batch_size_per_worker=8)
        sw.SparkNetwork(spark, model, master).fit(data, epochs=30)
        assert model.evaluate(data.features["features"], labels, verbose=0)[1] > 0.95
    # Averaged at the meetings, never encoded: the statistics are those of the data.
    mean = normalised.layers[2].moving_mean.numpy()
    assert abs(mean).max() > 0


def test_two_networks_after_one_another_and_both_masters_in_turn(
    spark: Any, blobs: DataSet, leaves_nothing: None
) -> None:
    import keras

    other = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    other.compile("adam", "sparse_categorical_crossentropy")
    averaging = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=5)
    for model, master in (
        (dense(), master_of()),
        (other, master_of(combine="mean")),
        (dense("adam"), averaging),
        (other, averaging),
        (dense(), master_of()),
    ):
        before = weights(model)
        sw.SparkNetwork(spark, model, master).fit(blobs)
        assert abs(weights(model) - before).max() > 0


def test_a_network_mask_that_fits_no_address(spark: Any, blobs: DataSet) -> None:
    mesh = sw.MeshConfig(network_mask="203.0.113.0/24")
    with pytest.raises(sw.ConfigurationError, match=r"203\.0\.113\.0/24"):
        sw.SparkNetwork(spark, dense(), master_of(mesh=mesh)).fit(blobs)


def test_variables_of_half_precision_are_refused(spark: Any, blobs: DataSet) -> None:
    import keras

    layers = [
        keras.layers.Dense(8, activation="tanh", dtype="bfloat16"),
        keras.layers.Dense(3, activation="softmax", dtype="float32"),
    ]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile("sgd", "sparse_categorical_crossentropy")
    with pytest.raises(sw.ConfigurationError, match=r"kernel' of bfloat16.*mixed_bfloat16"):
        sw.SparkNetwork(spark, model, master_of()).fit(blobs)
