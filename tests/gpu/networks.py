"""The networks that are trained on GPUs, their data, and how Sparkwright trains them."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

import sparkwright as sw

SMALL = os.environ.get("SPARKWRIGHT_GPU_SMALL") == "1"
IS_FAKE = bool(os.environ.get("SPARKWRIGHT_FAKE_GPUS"))
# Address of the GPU that is checked; see `__main__`.
GPU = os.environ.get("SPARKWRIGHT_GPU_CHECKED", "0")
LOSS = "sparse_categorical_crossentropy"


def network(name: str) -> tuple[Any, int]:
    """A compiled network of figures, without metrics, and the size of its minibatches."""
    import keras

    if name != "lenet" and not SMALL:
        keras.config.set_dtype_policy("mixed_bfloat16")
    model, batch = {"lenet": _lenet, "resnet50": _resnet50, "transformer": _transformer}[name]()
    model.compile(keras.optimizers.Adam(1e-4), LOSS)
    keras.config.set_dtype_policy("float32")
    return model, batch


def _lenet() -> tuple[Any, int]:
    import keras

    layers = keras.layers
    parts: list[Any] = [keras.Input((28, 28, 1))]
    for filters in (20, 50):
        parts += [layers.Conv2D(filters, 5, activation="relu"), layers.MaxPooling2D()]
    parts += [layers.Flatten(), layers.Dense(500, activation="relu"), _top()]
    return keras.Sequential(parts, name="lenet"), 16 if SMALL else 64


def _resnet50() -> tuple[Any, int]:
    import keras

    if SMALL:
        layers = keras.layers
        x = given = keras.Input((16, 16, 3))
        x = layers.Conv2D(4, 3, padding="same")(x)
        x = layers.add([x, layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same")(x))])
        return keras.Model(given, _top()(layers.GlobalAveragePooling2D()(x)), name="resnet50"), 8
    inner = keras.applications.ResNet50(
        weights=None, include_top=False, input_shape=(224, 224, 3), pooling="avg"
    )
    return keras.Model(inner.input, _top()(inner.output), name="resnet50"), 64


def _transformer() -> tuple[Any, int]:
    import keras

    layers = keras.layers
    width, heads, length, blocks, batch = (16, 2, 8, 1, 8) if SMALL else (512, 8, 256, 6, 32)
    x = given = keras.Input((length, width))
    for _ in range(blocks):
        seen = layers.LayerNormalization()(x)
        x = layers.add([x, layers.MultiHeadAttention(heads, width // heads)(seen, seen)])
        inner = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.add([x, layers.Dense(width)(inner)])
    out = _top()(layers.GlobalAveragePooling1D()(x))
    return keras.Model(given, out, name="transformer"), batch


def _top() -> Any:
    import keras

    return keras.layers.Dense(10, activation="softmax", dtype="float32")


def random_data(model: Any, count: int) -> tuple[Any, Any]:
    """So many examples for a network of figures."""
    random = np.random.default_rng(0)
    features = random.random((count, *model.input_shape[1:]), np.float32)
    return features, random.integers(0, 10, count).astype(np.int32)


def wide(parameters: int) -> Any:
    """A network of about so many parameters, in layers of 4 million, without an optimizer's state."""
    import keras

    width = 256 if SMALL else 2048
    layers = [keras.layers.Dense(width) for _ in range(max(1, round(parameters / width**2)))]
    model = keras.Sequential([keras.Input((width,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def learner(policy: str = "float32", seed: int = 0) -> Any:
    """A small convolutional network that learns `stripes`, from the same weights on each backend."""
    import keras

    keras.config.set_dtype_policy(policy)
    layers = keras.layers
    parts = [layers.Conv2D(8, 3, activation="relu"), layers.Flatten(), layers.Dense(16, "relu")]
    top = layers.Dense(3, activation="softmax", dtype="float32")
    model = keras.Sequential([keras.Input((12, 12, 1)), *parts, top], name="learner")
    keras.config.set_dtype_policy("float32")
    random = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        if len(weight.shape) > 1:
            scale = float(np.prod(weight.shape[:-1])) ** -0.5
            weight.assign(random.normal(0, scale, weight.shape).astype(np.float32))
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), LOSS, metrics=["accuracy"])
    return model


def stripes(count: int = 960) -> sw.DataSet:
    """Noisy images of three kinds of stripes."""
    random = np.random.default_rng(1)
    kinds = random.integers(0, 3, count).astype(np.int32)
    waves = np.sin(np.arange(12)[None] * (kinds[:, None] + 1))
    images = waves[:, :, None] + random.normal(0, 0.5, (count, 12, 12))
    return sw.DataSet(images[..., None].astype(np.float32), kinds)


def averaging(**options: Any) -> Any:
    return sw.ParameterAveragingTrainingMaster(
        **{"batch_size_per_worker": 16, "averaging_frequency": 5, "seed": 1, **options}
    )


def train(
    model: Any, master: Any, data: Any, devices: str | Sequence[str], **options: Any
) -> tuple[Any, Any]:
    """Train with a worker for each device; the model and the run, after its end."""
    workers = len(devices) if not isinstance(devices, str) else 2
    with sw.ParallelWrapper(
        model, master, devices=devices, workers=workers, cores_per_worker=1 if IS_FAKE else 4
    ) as wrapper:
        run = wrapper.start(data, display=False, **options)
        run.wait(300.0)
        return wrapper.model, run


def epoch_losses(run: Any) -> list[float]:
    """The mean loss of each epoch."""
    return run.history.groupby("epoch").loss.mean().tolist()
