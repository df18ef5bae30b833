"""Stopping, interrupting, several runs, clear errors, and what is left afterwards."""

import asyncio
import ctypes
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.spark.helpers import Slow, Stuck, busy, dense, train_locally, weights
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.cluster.connect import context_of
from sparkwright.data import DataSet

pytestmark = pytest.mark.spark


def master_of(workers: int = 2, **options: Any) -> sw.ParameterAveragingTrainingMaster:
    options = {"batch_size_per_worker": 5, "averaging_frequency": 2, "seed": 1, **options}
    return sw.ParameterAveragingTrainingMaster(workers=workers, **options)


class InOrder:
    """Training whose averages can be computed without Spark.

    Worker n trains the n-th part of the examples in order, two minibatches of five per averaging.
    """

    def __init__(self, spark: Any, blobs: DataSet, *, workers: int = 2, hook: Any) -> None:
        size = len(blobs) // workers
        parts = [blobs.take(slice(n * size, (n + 1) * size)) for n in range(workers)]
        self._batches = [list(part.batches(5)) for part in parts]
        self.model = self._model()
        master = master_of(workers=workers, shuffle=False, repartition="never").with_hooks(hook)
        network = sw.SparkNetwork(spark, self.model, master)
        data = sw.data.from_rdd(spark, context_of(spark).parallelize(parts, workers))
        self.run = network.start(data, epochs=500)

    def assert_model_is_last_average(self) -> None:
        """Compare the model with the average after so many averagings, trained locally."""
        steps = int(self.model.optimizer.iterations)
        assert steps == 2 * self.run.status.averagings > 0
        replica = self._model()
        average = replica.get_weights()
        for first in range(0, steps, 2):
            found: list[Any] = []
            for batches in self._batches:
                replica.set_weights(average)
                start = first % len(batches)
                train_locally(replica, batches[start : start + 2])
                found.append(replica.get_weights())
            average = [np.mean(part, axis=0) for part in zip(*found, strict=True)]
        replica.set_weights(average)
        np.testing.assert_allclose(weights(self.model), weights(replica), atol=1e-5)

    @staticmethod
    def _model() -> Any:
        import keras

        return dense(keras.optimizers.SGD(0.1))


@pytest.mark.connect
def test_stop_keeps_the_average_of_the_last_round(
    spark: Any, blobs: DataSet, leaves_nothing: None
) -> None:
    training = InOrder(spark, blobs, hook=Slow())
    run = training.run
    wait_until(lambda: run.status.averagings >= 3, 60)
    run.stop()
    run.wait(30)
    status = run.status
    assert status.state == "stopped"
    assert 3 <= status.averagings < 100
    assert run.history["step"].max() == 2 * status.averagings
    training.assert_model_is_last_average()


@pytest.mark.thorough
@pytest.mark.connect
def test_interrupting_a_wait_stops_the_run_and_frees_the_executors(
    spark: Any, blobs: DataSet, leaves_nothing: None
) -> None:
    training = InOrder(spark, blobs, workers=4, hook=Slow())
    run = training.run
    wait_until(lambda: run.status.averagings >= 2, 60)
    main = threading.get_ident()

    def interrupt() -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(main), ctypes.py_object(KeyboardInterrupt)
        )

    timer = threading.Timer(0.5, interrupt)
    timer.start()
    with pytest.raises(sw.errors.RunInterrupted, match="holds the last average"):
        run.wait()
    timer.join()
    # All four slots are free again: a job that needs them runs at once.
    assert context_of(spark).parallelize(range(4), 4).collect() == [0, 1, 2, 3]
    assert run.status.state == "stopped"
    assert run.history["step"].max() == 2 * run.status.averagings
    training.assert_model_is_last_average()


@pytest.mark.parametrize("communication", ["ring", "spark"])
def test_run_stopped_while_counting_data_ends_immediately(spark: Any, communication: Any) -> None:
    def slow(rows: Any) -> Any:
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


@pytest.mark.thorough
def test_cancelled_await_stops_the_run(spark: Any, blobs: DataSet, leaves_nothing: None) -> None:
    run = sw.SparkNetwork(spark, dense(), master_of().with_hooks(Slow())).start(blobs, epochs=500)

    async def cell() -> None:
        # As IPython does, the cell's own task meets the exception: asyncio would end its loop.
        with pytest.raises(sw.errors.RunInterrupted):
            await run

    async def notebook() -> None:
        task = asyncio.ensure_future(cell())
        while run.status.averagings < 2:
            await asyncio.sleep(0.02)
        task.cancel()
        await task

    asyncio.run(notebook())
    assert run.status.state == "stopped"


@pytest.mark.thorough
@pytest.mark.connect
def test_concurrent_runs_do_not_affect_each_other(
    spark: Any, blobs: DataSet, leaves_nothing: None
) -> None:
    alone = dense("adam")
    sw.SparkNetwork(spark, alone, master_of()).fit(blobs, epochs=3)
    models = [dense("adam"), dense("adam")]
    runs = [sw.SparkNetwork(spark, model, master_of()).start(blobs, epochs=3) for model in models]
    for run in runs:
        run.wait(120)
    for model in models:
        np.testing.assert_array_equal(weights(model), weights(alone))


def test_network_cannot_be_trained_by_two_runs(spark: Any, blobs: DataSet) -> None:
    network = sw.SparkNetwork(spark, dense(), master_of().with_hooks(Slow()))
    run = network.start(blobs, epochs=500)
    with pytest.raises(sw.ConfigurationError, match="being trained by"):
        network.start(blobs)
    run.stop()
    run.wait(30)


# -- clear errors ---------------------------------------------------------------------------


def test_too_few_slots_raise(spark: Any, blobs: DataSet) -> None:
    with pytest.raises(sw.errors.SlotsError, match=r"workers=9, slots=4.*start_spark\(workers=9\)"):
        sw.SparkNetwork(spark, dense(), master_of(workers=9)).fit(blobs)


@pytest.mark.thorough
def test_slots_held_by_other_jobs_raise_a_clear_error(spark: Any, blobs: DataSet) -> None:
    """Another job holds all slots: no worker comes; the message says what to look at."""
    master = master_of(mesh=sw.MeshConfig(queue_timeout_s=2))
    rule = r"no worker started within 2 s.*4 task slots"
    error = pytest.raises(sw.errors.RunTimeoutError, match=rule)
    with busy(spark, 4), error:
        sw.SparkNetwork(spark, dense(), master).fit(blobs)


@pytest.mark.thorough
def test_missing_workers_raise_a_clear_error(spark: Any, blobs: DataSet) -> None:
    master = master_of(mesh=sw.MeshConfig(rendezvous_timeout_s=2))
    error = pytest.raises(
        sw.errors.RunTimeoutError, match=r"2 workers must register .* missing: workers \[[01]\]"
    )
    with busy(spark, 3), error:
        sw.SparkNetwork(spark, dense(), master).fit(blobs)


@pytest.mark.thorough
def test_failing_layer_raises(spark: Any, blobs: DataSet, leaves_nothing: None) -> None:
    import keras

    class Failing(keras.layers.Layer):
        def call(self, inputs: Any, training: bool = False) -> Any:
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


def test_wrong_shape_raises(spark: Any, leaves_nothing: None) -> None:
    data = DataSet(np.zeros((20, 5), np.float32), np.zeros(20, np.int32))
    with pytest.raises(sw.DataError, match=r"shape that the network takes, \(4\).*Received: \(5\)"):
        sw.SparkNetwork(spark, dense(), master_of()).fit(data)


def test_closed_port_range_raises(spark: Any, blobs: DataSet) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        master = master_of(mesh=sw.MeshConfig(ports=port))
        with pytest.raises(sw.errors.NetworkError, match=f"Received: ports={port}"):
            sw.SparkNetwork(spark, dense(), master).fit(blobs)


def test_unreachable_driver_raises(spark: Any, blobs: DataSet) -> None:
    # Nobody listens at 127.0.0.9: as if a firewall closed the driver's port.
    mesh = sw.MeshConfig(controller_address="127.0.0.9", connect_timeout_s=2)
    rule = r"127\.0\.0\.9:\d+ could not be reached within 2 s"
    with pytest.raises(sw.errors.NetworkError, match=rule):
        sw.SparkNetwork(spark, dense(), master_of(mesh=mesh)).fit(blobs)


@pytest.mark.thorough
def test_failing_rdd_raises_with_the_users_error(spark: Any) -> None:
    def bad(number: int) -> Any:
        raise KeyError(f"no such record: {number}")

    rdd = spark.sparkContext.parallelize(range(4), 2).map(bad)
    with pytest.raises(sw.errors.WorkerError, match="no such record"):
        sw.SparkNetwork(spark, dense(), master_of()).fit(rdd)


def test_invalid_models_and_arguments_raise(spark: Any, blobs: DataSet) -> None:
    import keras

    with pytest.raises(sw.ConfigurationError, match=r"keras\.Model, .* Received: int"):
        sw.SparkNetwork(spark, 3)
    with pytest.raises(sw.ConfigurationError, match="master=None"):
        sw.SparkNetwork(spark, dense()).fit(blobs)
    with pytest.raises(sw.ConfigurationError, match="`epochs`"):
        sw.SparkNetwork(spark, dense(), master_of()).fit(blobs, epochs=0)
    uncompiled = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    with pytest.raises(sw.ConfigurationError, match="not compiled"):
        sw.SparkNetwork(spark, uncompiled, master_of()).fit(blobs)
    with pytest.raises(sw.DataError, match="`data` must be"):
        sw.SparkNetwork(spark, dense(), master_of()).fit([1, 2, 3])


@pytest.mark.thorough
def test_large_network_trains_with_the_default_driver_memory(
    spark: Any, leaves_nothing: None, tmp_path: Path
) -> None:
    """260 MB of weights, 1 GB of driver heap: vectors go past the JVM."""
    import keras

    assert spark.sparkContext.getConf().get("spark.driver.memory") is None
    model = keras.Sequential(
        [
            keras.Input((1000,)),
            keras.layers.Dense(8_000, kernel_initializer="zeros"),
            keras.layers.Dense(7_000, kernel_initializer="zeros"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.01), "mse")
    assert model.count_params() * 4 > 250e6
    data = DataSet(np.ones((4, 1000), np.float32), np.ones((4, 7_000), np.float32))
    network = sw.SparkNetwork(spark, model, master_of(batch_size_per_worker=1))
    network.fit(data)
    assert model.get_weights()[-1].max() > 0


@pytest.mark.thorough
def test_interrupt_in_a_long_step_keeps_the_last_average(
    spark: Any, blobs: DataSet, leaves_nothing: None, tmp_path: Path
) -> None:
    """A step that takes longer than an interrupt may: the tasks are killed, the average is kept."""
    marker = tmp_path / "slow"
    training = InOrder(spark, blobs, hook=Stuck(str(marker)))
    run = training.run
    wait_until(lambda: run.status.averagings >= 2, 60)
    marker.write_text("from now on each step takes ten minutes")
    time.sleep(1)
    run._stop_now()  # what an interrupt does
    assert run.finished
    assert spark.sparkContext.parallelize(range(4), 4).count() == 4
    training.assert_model_is_last_average()
