"""Small networks, and what tests do with them."""

import threading
import time
from typing import Any

import numpy as np

from sparkwright.data import DataSet


def dense(optimizer: Any = "sgd", *, seed: int = 1, regularizer: Any = None) -> Any:
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


def weights(model: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    """All weights, flat."""
    return np.concatenate([w.ravel() for w in model.get_weights()])


def train_locally(model: Any, batches: list[DataSet]) -> None:
    """One Keras step for each batch, on this machine."""
    for batch in batches:
        x = list(batch.features.values())
        y = list(batch.labels.values())
        model.train_on_batch(
            x[0] if len(x) == 1 else x, y[0] if len(y) == 1 else y, sample_weight=batch.weights
        )


class Slow:
    def pre_update(self, minibatch: Any, model: Any) -> None:
        del minibatch, model
        time.sleep(0.05)

    def post_update(self, minibatch: Any, model: Any) -> None:
        del minibatch, model


def wait_until(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        threading.Event().wait(0.02)
