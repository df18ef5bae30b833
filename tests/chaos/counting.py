"""A network whose parameters count what it has been trained on, and hooks that disturb it.

One output, no bias, the mean absolute error of labels far above it: so the gradient is minus the
mean of a minibatch's features, wherever the parameters are. Example i has 1 in column i + 1, and
1 / BATCH in column 0. With a learning rate of 1, a minibatch adds 1 / BATCH to parameter 0 and to
those of its examples, exactly: all are sums of powers of two.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

import numpy as np

import sparkwright as sw

WORKERS = 3
BATCH = 8
EXAMPLES = 16 * BATCH * WORKERS  # 16 minibatches of each worker in an epoch
EPOCHS = 11
# What gradient sharing sends of a minibatch at once; the rest counts 1 / WORKERS at the end.
SENT = 0.99
_FAR = 1e4


def examples(count=EXAMPLES):
    """Examples that a network can count."""
    features = np.concatenate([np.full((count, 1), 1 / BATCH), np.eye(count)], axis=1)
    return sw.DataSet(features.astype(np.float32), np.full((count, 1), _FAR, np.float32))


def data(spark, count=EXAMPLES):
    """`examples` in one partition: all that the workers get comes from one executor's shuffle."""
    return sw.data.from_rdd(spark, spark.sparkContext.parallelize([examples(count)], 1))


def counter(count=EXAMPLES):
    """A network that has counted nothing."""
    import keras

    layers = [
        keras.Input((count + 1,)),
        keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros"),
    ]
    model = keras.Sequential(layers, name="counter")
    model.compile(keras.optimizers.SGD(1.0), "mean_absolute_error")
    return model


def counts(model):
    """(1 + examples,) minibatches, then how often each example was trained."""
    return np.concatenate([w.ravel() for w in model.get_weights()]).astype(np.float64) * BATCH


class Hook:
    """Does nothing."""

    def pre_update(self, minibatch, model): ...

    def post_update(self, minibatch, model): ...


class Paced(Hook):
    """Makes every minibatch take some time, so that there is time to disturb a run."""

    def __init__(self, pause_s=0.02):
        self.pause_s = pause_s

    def pre_update(self, minibatch, model):
        time.sleep(self.pause_s)


class ClockAhead(Hook):
    """While a file exists, the wall clock of one worker's process is an hour ahead."""

    def __init__(self, switch):
        self.switch = switch

    def pre_update(self, minibatch, model):
        # Example 0 is one worker's.
        if not minibatch.features["features"][:, 1].any():
            return
        known = time.time
        if not hasattr(known, "real"):  # the process stays for other runs, and so does its clock

            def ahead():
                return known() + (3600.0 if os.path.exists(ahead.switch) else 0.0)

            ahead.real = known
            time.time = ahead
        time.time.switch = self.switch


class KillAtExample(Hook):
    """While a file exists, kills its trainer process whenever it is to train one example."""

    def __init__(self, switch, number=0):
        self.switch, self.number = switch, number

    def pre_update(self, minibatch, model):
        if minibatch.features["features"][:, 1 + self.number].any() and Path(self.switch).exists():
            os.kill(os.getpid(), signal.SIGKILL)


def disturbing_callback(switch, fault, network, runs):
    """A callback that, once a file exists, does what may wait for the run that calls it."""
    import keras

    class Disturbing(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if switch.exists() and fault == "evaluate":
                network.evaluate_regression(data(network.spark))
            elif switch.exists():
                runs[0].wait()

    return Disturbing()


class PoisonAt(Hook):
    """After its n-th minibatch one worker's parameters are NaN; its loss was finite."""

    def __init__(self, marker, at):
        self.marker, self.at, self.done = marker, at, 0

    def post_update(self, minibatch, model):
        self.done += 1
        if self.done == self.at:
            with contextlib.suppress(FileExistsError), open(self.marker, "x"):
                variable = model.trainable_variables[0]
                variable.assign(np.full(variable.shape, np.nan, np.float32))


class HangAtExample(Hook):
    """While a file exists, hangs for minutes when it is to train one example."""

    def __init__(self, switch, number=0):
        self.switch, self.number = switch, number

    def pre_update(self, minibatch, model):
        if minibatch.features["features"][:, 1 + self.number].any() and Path(self.switch).exists():
            time.sleep(300)
