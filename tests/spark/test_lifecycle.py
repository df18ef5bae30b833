import errno
import os
import resource
import socket
import time
from pickle import PicklingError
from typing import Any

import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import (
    KillOnce,
    Paced,
    Stuck,
    busy,
    dense,
    train_locally,
    weights,
)
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright._open_files import open_files
from sparkwright.cluster import shared_bytes
from sparkwright.cluster.connect import context_of
from sparkwright.cluster.shared_bytes import SharedBytes
from sparkwright.runs import peer_engine
from sparkwright.runs.begin import check_untrained
from sparkwright.spark import _round_jobs


def master_of(workers=2, **options):
    options = {"batch_size_per_worker": 5, "averaging_frequency": 2, "seed": 1, **options}
    return sw.ParameterAveragingTrainingMaster(workers=workers, **options)


class InOrder:
    """Training whose averages can be computed without Spark.

    Worker n trains the n-th part of the examples in order, two minibatches of five per averaging.
    """

    def __init__(self, spark, blobs, *, hook):
        parts = [blobs.take(slice(0, 60)), blobs.take(slice(60, 120))]
        self._batches = [list(part.batches(5)) for part in parts]
        self.model = dense(keras.optimizers.SGD(0.1))
        master = master_of(shuffle=False, repartition="never").with_hooks(hook)
        network = sw.SparkNetwork(spark, self.model, master)
        data = sw.data.from_rdd(spark, context_of(spark).parallelize(parts, 2))
        self.run = network.start(data, epochs=500)

    def assert_model_is_last_average(self):
        """Compare the model with the average after so many averagings, trained locally."""
        steps = int(self.model.optimizer.iterations)
        assert steps == 2 * self.run.status.averagings > 0
        replica = dense(keras.optimizers.SGD(0.1))
        average = replica.get_weights()
        for first in range(0, steps, 2):
            found = []
            for batches in self._batches:
                replica.set_weights(average)
                start = first % len(batches)
                train_locally(replica, batches[start : start + 2])
                found.append(replica.get_weights())
            average = [np.mean(part, axis=0) for part in zip(*found, strict=True)]
        replica.set_weights(average)
        np.testing.assert_allclose(weights(self.model), weights(replica), atol=1e-5)


@pytest.mark.connect
def test_stop_keeps_the_average_of_the_last_round(spark, blobs, leaves_nothing):
    training = InOrder(spark, blobs, hook=Paced())
    run = training.run
    wait_until(lambda: run.status.averagings >= 3, 60)
    run.stop()
    run.wait(30)
    status = run.status
    assert status.state == "stopped"
    assert 3 <= status.averagings < 100
    assert run.history["step"].max() == 2 * status.averagings
    # All four slots are free again: a job that needs them runs at once.
    assert context_of(spark).parallelize(range(4), 4).collect() == [0, 1, 2, 3]
    training.assert_model_is_last_average()


@cases("communication", "ring", "spark")
def test_run_stopped_while_counting_data_ends_immediately(spark, communication):
    def slow(rows):
        time.sleep(60)
        yield from rows

    rows = spark.sparkContext.parallelize([(1.0, 2.0, 3.0, 4.0, 0)] * 8, 2).mapPartitions(slow)
    data = sw.data.from_dataframe(
        spark.createDataFrame(rows, "a double, b double, c double, d double, label int"),
        features=["a", "b", "c", "d"],
        labels="label",
    )
    model = dense()
    before = weights(model)
    network = sw.SparkNetwork(spark, model, master_of(communication=communication))
    run = network.start(data)
    tracker = spark.sparkContext.statusTracker()
    wait_until(lambda: bool(tracker.getActiveJobsIds()), 30)
    run.stop()
    assert run.wait(30) is model
    assert run.status.state == "stopped"
    assert run.status.message == "stopped; the model holds what it held"
    np.testing.assert_array_equal(weights(model), before)
    wait_until(lambda: not tracker.getActiveJobsIds(), 10)


class Asks(keras.callbacks.Callback):
    """Asks in a callback for what waits for the end of its own run."""

    def __init__(self, asked):
        super().__init__()
        self.asked, self.errors = asked, []

    def on_epoch_end(self, epoch, logs=None):
        while self.asked:
            try:
                self.asked.pop()()
            except sw.SparkwrightError as error:
                self.errors.append(error)


@pytest.mark.connect
def test_all_slots_of_a_run_are_its_own_to_its_end(spark, blobs, tmp_path):
    killed = tmp_path / "killed"
    asks, seen = Asks([]), []
    network = sw.SparkNetwork(spark, dense(), master_of(4).with_hooks(KillOnce(str(killed), at=4)))
    first = network.start(blobs, epochs=4, callbacks=[asks], display=False)
    second = sw.SparkNetwork(spark, dense(), master_of(2)).start(blobs, epochs=1, display=False)
    second.add_listener(lambda _: seen.append(second.status.state == "starting" and first.finished))
    other = sw.SparkNetwork(spark, dense())
    asks.asked += [second.wait, lambda: other.evaluate(blobs), lambda: other.predict(blobs)]
    assert second.status.message == f"Waiting for run {first.name} to end"
    first.wait(120)
    second.wait(120)
    assert killed.exists()
    assert sum(worker.restarts for worker in first.status.workers) == 1
    assert any(seen)
    *of_slots, of_wait = asks.errors
    assert len(of_slots) == 2
    assert all("slots=4, of which the run holds 4" in str(error) for error in of_slots)
    assert f"`wait` of run {second.name} in a callback of run {first.name}" in str(of_wait)


def test_model_cannot_be_trained_by_two_runs(spark, blobs):
    model = dense()
    network = sw.SparkNetwork(spark, model, master_of().with_hooks(Paced()))
    run = network.start(blobs, epochs=500, name="owner")
    message = "Received: .*, which run owner trains"
    with sw.ParallelWrapper(model, master_of(), workers=1) as wrapper:
        for second in (network, sw.SparkNetwork(spark, model, master_of()), wrapper):
            with pytest.raises(sw.ConfigurationError, match=message):
                second.start(blobs)
    outer = keras.Sequential([keras.Input((4,)), model])
    outer.compile("sgd", model.loss)
    with pytest.raises(sw.ConfigurationError, match="shares variables with dense, which run owner"):
        sw.SparkNetwork(spark, outer, master_of()).start(blobs)
    model.trainable = False  # another run only reads it: it may have such a part, too
    check_untrained(outer)
    run.stop()
    run.wait(30)
    assert run.finished


@pytest.mark.thorough
def test_spark_jobs_are_repeated_once_the_disk_of_the_driver_has_room_again(
    spark, blobs, monkeypatch
):
    full, of = [], SharedBytes.of

    def first_full(context, content):
        """As PySpark raises it."""
        full.append(len(full) in (1, 2) or len(full) > 6)
        if full[-1]:
            try:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                raise PicklingError("Could not serialize broadcast") from error
        return of(context, content)

    monkeypatch.setattr(SharedBytes, "of", first_full)
    monkeypatch.setattr(_round_jobs, "_FREE_FILE_TIMEOUT_S", 2.0)
    model = dense()
    master = master_of(communication="spark", averaging_frequency=100)
    with pytest.raises(sw.ConfigurationError, match="No space left on device; the temporary") as e:
        sw.SparkNetwork(spark, model, master).fit(blobs, epochs=50)
    assert full[:7] == [False, True, True, False, False, False, False]
    assert e.value.__notes__ == ["The model holds the average after averaging 5, in epoch 6."]


@cases("communication", "ring", "spark")
def test_a_run_without_free_file_descriptors_does_not_begin(
    spark, blobs, monkeypatch, communication
):
    limit, model = open_files() + 20, dense()

    def refused(*_):
        raise ValueError("not allowed to raise maximum limit")

    before = weights(model)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    monkeypatch.setattr(resource, "setrlimit", refused)
    with pytest.raises(sw.ConfigurationError, match=r"free file descriptors .* a limit of \d+"):
        sw.SparkNetwork(spark, model, master_of(communication=communication)).fit(blobs)
    np.testing.assert_array_equal(weights(model), before)


def test_too_few_slots_raise(spark, blobs):
    with pytest.raises(sw.errors.SlotsError, match=r"workers=9, slots=4.*start_spark\(workers=9\)"):
        sw.SparkNetwork(spark, dense(), master_of(workers=9)).fit(blobs)


@pytest.mark.thorough
@cases(
    "held, timeout, message",
    (4, "queue_timeout_s", r"no worker started within 2 s.*4 task slots"),
    (3, "rendezvous_timeout_s", r"2 workers must register .* missing: workers \[[01]\]"),
    ids=["all slots held", "one slot free"],
)
def test_slots_held_by_other_jobs_raise_a_clear_error(
    spark, blobs, monkeypatch, held, timeout, message
):
    # Tasks that wait for a slot do not end by themselves.
    monkeypatch.setattr(peer_engine, "_TASKS_END_S", 0.5)
    mesh = {timeout: 2}
    master = master_of(mesh=sw.MeshConfig(**mesh))
    with busy(spark, held), pytest.raises(sw.errors.RunTimeoutError, match=message):
        sw.SparkNetwork(spark, dense(), master).fit(blobs)


@pytest.mark.thorough
def test_failing_layer_raises(spark, blobs, leaves_nothing):
    class Failing(keras.layers.Layer):
        def call(self, inputs, training=False):
            if training:
                raise ZeroDivisionError("this layer cannot train")
            return inputs

    model = keras.Sequential(
        [keras.Input((4,)), Failing(), keras.layers.Dense(3, activation="softmax")]
    )
    model.compile("sgd", "sparse_categorical_crossentropy")
    with pytest.raises(sw.errors.WorkerError, match="this layer cannot train") as caught:
        sw.SparkNetwork(spark, model, master_of()).fit(blobs)
    assert caught.value.worker in (0, 1)
    assert "raise ZeroDivisionError" in str(caught.value)  # the user's own last frame


def test_wrong_shape_raises(spark, leaves_nothing):
    data = sw.DataSet(np.zeros((20, 5), np.float32), np.zeros(20, np.int32))
    with pytest.raises(sw.DataError, match=r"shape that the network takes, \(4\).*Received: \(5\)"):
        sw.SparkNetwork(spark, dense(), master_of()).fit(data)


def test_closed_port_range_raises(spark, blobs):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        master = master_of(mesh=sw.MeshConfig(ports=port))
        with pytest.raises(sw.errors.NetworkError, match=f"Received: ports={port}"):
            sw.SparkNetwork(spark, dense(), master).fit(blobs)


def test_unreachable_driver_raises(spark, blobs):
    # Nobody listens at 127.0.0.9: as if a firewall closed the driver's port.
    mesh = sw.MeshConfig(controller_address="127.0.0.9", connect_timeout_s=1)
    rule = r"127\.0\.0\.9:\d+ could not be reached within 1 s"
    with pytest.raises(sw.errors.NetworkError, match=rule):
        sw.SparkNetwork(spark, dense(), master_of(mesh=mesh)).fit(blobs)


@pytest.mark.thorough
def test_failing_rdd_raises_with_the_users_error(spark):
    def bad(number):
        raise KeyError(f"no such record: {number}")

    rdd = spark.sparkContext.parallelize(range(4), 2).map(bad)
    with pytest.raises(sw.errors.WorkerError, match="no such record"):
        sw.SparkNetwork(spark, dense(), master_of()).fit(rdd)


def test_invalid_models_and_arguments_raise(spark, blobs):
    with pytest.raises(sw.ConfigurationError, match=r"keras\.Model, .* Received: int"):
        sw.SparkNetwork(spark, 3)
    uncompiled = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    options: dict[str, Any]
    for message, model, master, data, options in (
        ("master=None", dense(), None, blobs, {}),
        ("`epochs`", dense(), master_of(), blobs, {"epochs": 0}),
        ("not compiled", uncompiled, master_of(), blobs, {}),
        ("`data` must be", dense(), master_of(), [1, 2, 3], {}),
    ):
        with pytest.raises((sw.ConfigurationError, sw.DataError), match=message):
            sw.SparkNetwork(spark, model, master).fit(data, **options)


@pytest.mark.thorough
@pytest.mark.connect
def test_stop_ends_a_run_of_spark_jobs_whose_task_hangs(
    spark, blobs, leaves_nothing, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(shared_bytes, "PART_BYTES", 64)  # so that the job's result comes in parts
    marker = tmp_path / "slow"
    model, mesh = dense(keras.optimizers.SGD(0.1)), sw.MeshConfig(stall_timeout_s=2.0)
    master = master_of(communication="spark", mesh=mesh).with_hooks(Stuck(marker))
    run = sw.SparkNetwork(spark, model, master).start(blobs, epochs=500)
    wait_until(lambda: run.status.averagings >= 2, 60)
    caplog.clear()
    marker.write_text("from now on each step takes ten minutes")
    wait_until(lambda: "no minibatch has counted for" in caplog.text, 60)
    assert f"waits for its job: train {run.id}, averaging" in caplog.text
    run.stop()
    run.wait(30)
    assert run.status.state == "stopped"
    assert int(model.optimizer.iterations) == 2 * run.status.averagings > 0
