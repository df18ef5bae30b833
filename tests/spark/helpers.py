"""Small networks, and what tests do with them."""

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
from tests.waiting import wait_until

from sparkwright.data import DataSet, from_rdd
from sparkwright.errors import RunInterrupted


def dense(optimizer="sgd", *, seed=1, regularizer=None):
    """4 features, one hidden layer, 3 classes."""
    import keras

    init = [keras.initializers.GlorotUniform(seed=seed + i) for i in range(2)]
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(
                8, activation="tanh", kernel_initializer=init[0], kernel_regularizer=regularizer
            ),
            keras.layers.Dense(3, activation="softmax", kernel_initializer=init[1]),
        ],
        name="dense",
    )
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def weights(model):
    """All weights, flat."""
    return np.concatenate([w.ravel() for w in model.get_weights()])


def train_locally(model, batches):
    """One Keras step for each batch, on this machine."""
    for batch in batches:
        x = list(batch.features.values())
        y = list(batch.labels.values())
        model.train_on_batch(
            x[0] if len(x) == 1 else x, y[0] if len(y) == 1 else y, sample_weight=batch.weights
        )


class Hook:
    """Does nothing."""

    def pre_update(self, minibatch, model): ...

    def post_update(self, minibatch, model): ...


class Paced(Hook):
    """Makes every minibatch take some time, so that there is time to disturb a run."""

    def __init__(self, pause_s=0.05):
        self.pause_s = pause_s

    def pre_update(self, minibatch, model):
        time.sleep(self.pause_s)


class Stuck(Hook):
    """Makes minibatches take ten minutes as soon as a file exists."""

    def __init__(self, marker):
        self.marker = str(marker)

    def pre_update(self, minibatch, model):
        time.sleep(600 if Path(self.marker).exists() else 0.02)


class RecordingHook(Hook):
    """Writes down, on the worker, which examples each minibatch holds."""

    def __init__(self, folder):
        self.folder = folder

    def pre_update(self, minibatch, model):
        import uuid

        numbers = minibatch.features["features"][:, 0]
        path = Path(self.folder) / uuid.uuid4().hex
        # Under its name when it is complete: a test may kill this process at any time.
        with path.open("wb") as file:
            np.save(file, numbers)
        path.rename(f"{path}.npy")


def numbered(rows):
    """Examples whose first feature is their number."""
    features = np.zeros((rows, 4), np.float32)
    features[:, 0] = np.arange(rows)
    return DataSet(features, np.zeros(rows, np.int32))


def partitioned(spark, sizes):
    data, parts, start = numbered(sum(sizes)), [], 0
    for size in sizes:
        parts.append([data.take(slice(start, start + size))] if size else [])
        start += size
    rdd = spark.sparkContext.parallelize(parts, len(parts)).flatMap(lambda part: part)
    return from_rdd(spark, rdd)


def seen(folder):
    return Counter(int(n) for file in folder.glob("*.npy") for n in np.load(file))


class KillOnce(Hook):
    """Kills one worker's trainer process at its n-th minibatch."""

    def __init__(self, marker, *, at):
        self.marker, self.at = marker, at
        self.count = 0

    def pre_update(self, minibatch, model):
        self.count += 1
        time.sleep(0.02)
        if self.count == self.at:
            with contextlib.suppress(FileExistsError), open(self.marker, "x"):
                os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def busy(spark, slots):
    """Tasks of another job hold so many task slots until the block ends."""
    from sparkwright.cluster.jobs import inheriting_thread
    from sparkwright.cluster.slots import wait_for_slots

    with tempfile.NamedTemporaryFile() as marker:

        def hold(_):
            deadline_s = time.monotonic() + 120
            while os.path.exists(marker_path) and time.monotonic() < deadline_s:
                time.sleep(0.02)

        marker_path = marker.name
        job = spark.sparkContext.parallelize(range(slots), slots)
        wait_for_slots(spark, slots)  # executors may have been lost, or not have come yet
        thread = inheriting_thread(lambda: job.foreach(hold), spark)
        thread.start()
        tracker = spark.sparkContext.statusTracker()
        # Tasks of an earlier test may have to end first.
        wait_until(lambda: sum(_active_tasks(tracker)) >= slots, 60)
        yield
    thread.join(20)


def _active_tasks(tracker):
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return [info.numActiveTasks for info in infos if info is not None]


def interrupt(run, *, after_s=0.2):
    """Press Ctrl-C while the main thread waits for a run."""
    threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT)).start()
    with contextlib.suppress(RunInterrupted):
        run.wait()
        raise AssertionError("the run was not interrupted")
