"""Small networks and data for tests on Spark; networks are alike, so trainers keep them warm."""

from typing import Any

import numpy as np
import pytest

from sparkwright.data import DataSet


@pytest.fixture
def blobs() -> DataSet:
    """120 examples, 4 features, 3 classes that can be told apart."""
    random = np.random.default_rng(0)
    labels = np.arange(120, dtype=np.int32) % 3
    centres = random.normal(size=(3, 4)) * 2
    features = centres[labels] + random.normal(size=(120, 4))
    return DataSet(features.astype(np.float32), labels)


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
