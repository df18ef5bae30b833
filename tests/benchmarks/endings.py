"""Seconds until a run has ended after what ends it, or all workers train after a loss."""

import contextlib
import os
import signal
import statistics
import threading
import time

import keras
import numpy as np
from tests.benchmarks._harness import dense, processes, row
from tests.spark.test_session_end import ended
from tests.waiting import wait_until

import sparkwright as sw

_AVERAGING = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=5)
_SPARK = sw.ParameterAveragingTrainingMaster(
    workers=2, batch_size_per_worker=5, communication="spark"
)
_SHARING = sw.SharedTrainingMaster(workers=2, batch_size_per_worker=5)
MASTERS = {"averaging": _AVERAGING, "sharing": _SHARING, "spark": _SPARK}
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_REPEATS = 3


def endings():
    """What `docs/faults.md` says of times; the baseline is `run.stop()` with the same master."""
    found = {name: _with_one_session(master) for name, master in MASTERS.items()}
    for name in MASTERS:
        for what, how in (("spark.stop()", "stop"), ("the driver's JVM is killed", "kill")):
            found[name][what] = [ended(name, how)["seconds"] for _ in range(_REPEATS)]
    for name, of_master in found.items():
        baseline = statistics.median(of_master["run.stop()"])
        for what, runs in of_master.items():
            yield row(f"{name}: {what}", statistics.median(runs), "s", baseline, runs=runs)


def _with_one_session(master):
    spark = sw.start_spark(workers=2, cores_per_worker=1)
    acts = {
        "run.stop()": _stopped,
        "a callback calls sys.exit()": _exited,
        "Ctrl-C": _interrupted,
        "a worker's process is killed": _worker_killed,
        "an executor is killed": _executor_killed,
    }
    found = {what: [act(spark, master) for _ in range(_REPEATS)] for what, act in acts.items()}
    spark.stop()
    return found


class _Exit(keras.callbacks.Callback):
    """Raises SystemExit at the end of an epoch, once asked, and keeps the time of that."""

    def __init__(self):
        super().__init__()
        self.asked, self.raised_s = False, 0.0

    def on_epoch_end(self, epoch, logs=None):
        if self.asked:
            self.raised_s = time.monotonic()
            raise SystemExit(3)


def _running(spark, master, **options):
    random = np.random.default_rng(0)
    data = sw.DataSet(
        random.normal(size=(80, 4)).astype(np.float32), np.arange(80, dtype=np.int32) % 3
    )
    model = dense(4, 8, 3, top="softmax")
    model.compile("sgd", "sparse_categorical_crossentropy")
    network = sw.SparkNetwork(spark, model, master)
    run = network.start(data, epochs=100_000, display=False, **options)
    wait_until(lambda: run.status.epoch >= 3, 120)
    return run


def _seconds_to_the_end(run, began_s):
    with contextlib.suppress(sw.errors.SparkwrightError, KeyboardInterrupt):
        run.wait(90)
    return time.monotonic() - began_s


def _stopped(spark, master):
    run, began_s = _running(spark, master), time.monotonic()
    run.stop()
    return _seconds_to_the_end(run, began_s)


def _exited(spark, master):
    callback = _Exit()
    run = _running(spark, master, callbacks=[callback])
    callback.asked = True
    _seconds_to_the_end(run, 0)
    return time.monotonic() - callback.raised_s


def _interrupted(spark, master):
    run, began_s = _running(spark, master), time.monotonic() + 1.0
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    return _seconds_to_the_end(run, began_s)


def _worker_killed(spark, master):
    run = _running(spark, master)
    return _seconds_to_recover(run, master, run.status.workers[1].pid)


def _executor_killed(spark, master):
    run = _running(spark, master)
    return _seconds_to_recover(run, master, next(processes(_EXECUTOR)).pid)


def _seconds_to_recover(run, master, pid):
    """Kill a process; return how long it takes until all workers have trained again."""
    began_s = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    if master is _SPARK:  # Spark repeats the task that is lost
        averagings = run.status.averagings
        wait_until(lambda: run.status.averagings > averagings + 1, 90)
    else:
        wait_until(lambda: sum(worker.restarts for worker in run.status.workers) > 0, 90)
        steps = {worker.worker: worker.steps for worker in run.status.workers}
        wait_until(lambda: all(w.steps > steps[w.worker] for w in run.status.workers), 90)
    seconds = time.monotonic() - began_s
    run.stop()
    run.wait(60)
    return seconds
