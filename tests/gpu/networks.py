"""The networks that are trained on GPUs, their data, and how Sparkwright trains them."""

import atexit
import contextlib
import os

import numpy as np

import sparkwright as sw

SMALL = os.environ.get("SPARKWRIGHT_GPU_SMALL") == "1"
VOCABULARY = 8192  # of the transformer
IS_FAKE = bool(os.environ.get("SPARKWRIGHT_FAKE_GPUS"))
GPU = os.environ.get("SPARKWRIGHT_GPU_CHECKED", "0")  # its address; see `__main__`
_open = contextlib.ExitStack()
atexit.register(_open.close)
_LOSS = "sparse_categorical_crossentropy"


def network(name):
    """A network of figures, compiled without metrics, and the size of its minibatches."""
    import keras

    keras.config.set_dtype_policy("float32" if SMALL or name == "lenet" else "mixed_bfloat16")
    layers = keras.layers
    if name == "lenet":
        x, batch = keras.Input((28, 28, 1)), 16 if SMALL else 64
        inside = [layers.Conv2D(20, 5, activation="relu"), layers.MaxPooling2D()]
        inside += [layers.Conv2D(50, 5, activation="relu"), layers.MaxPooling2D()]
        inner = keras.Sequential([x, *inside, layers.Flatten(), layers.Dense(500, "relu")])
    elif name == "resnet50":
        side, batch = (16, 8) if SMALL else (224, 64)
        x = given = keras.Input((side, side, 3), dtype="uint8")
        x = layers.Rescaling(1 / 255)(x)
        if SMALL:
            x = layers.Flatten()(layers.BatchNormalization()(layers.Conv2D(4, 3)(x)))
        else:
            options = {"include_top": False, "pooling": "avg", "weights": None}
            x = keras.applications.ResNet50(input_shape=(side, side, 3), **options)(x)
        inner = keras.Model(given, x)
    else:
        width, heads, length, blocks, batch = (16, 2, 8, 1, 8) if SMALL else (512, 8, 256, 6, 32)
        x = given = keras.Input((length,), dtype="int32")
        x = layers.Embedding(VOCABULARY, width)(x)
        for _ in range(blocks):
            seen = layers.LayerNormalization()(x)
            x = layers.add([x, layers.MultiHeadAttention(heads, width // heads)(seen, seen)])
            wide = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
            x = layers.add([x, layers.Dense(width)(wide)])
        inner = keras.Model(given, layers.GlobalAveragePooling1D()(x))
    top = layers.Dense(10, activation="softmax", dtype="float32")(inner.outputs[0])
    model = keras.Model(inner.inputs[0], top, name=name)
    model.compile(keras.optimizers.Adam(1e-4), _LOSS)
    keras.config.set_dtype_policy("float32")
    return model, batch


def random_data(model, count):
    """So many examples for a network of figures."""
    random, shape = np.random.default_rng(0), (count, *model.input_shape[1:])
    kind = str(model.inputs[0].dtype)
    if kind == "float32":
        features = random.random(shape, np.float32)
    else:  # pixels or tokens
        features = random.integers(0, 256 if kind == "uint8" else VOCABULARY, shape, kind)
    return features, random.integers(0, 10, count).astype(np.int32)


def wide(parameters):
    """A network of about so many parameters, whose optimizer has no state."""
    import keras

    width = 256 if SMALL else 2048
    layers = [keras.layers.Dense(width) for _ in range(max(1, round(parameters / width**2)))]
    model = keras.Sequential([keras.Input((width,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def learner(policy="float32"):
    """A small convolutional network for `stripes`; it always begins with the same weights."""
    sw.leave_gpus_to_workers()
    import keras

    keras.config.set_dtype_policy(policy)
    layers = keras.layers
    parts = [layers.Conv2D(8, 3, activation="relu"), layers.Flatten(), layers.Dense(16, "relu")]
    top = layers.Dense(3, activation="softmax", dtype="float32")
    model = keras.Sequential([keras.Input((12, 12, 1)), *parts, top], name="learner")
    keras.config.set_dtype_policy("float32")
    random = np.random.default_rng(0)
    for weight in model.trainable_weights:
        if len(weight.shape) > 1:
            scale = float(np.prod(weight.shape[:-1])) ** -0.5
            weight.assign(random.normal(0, scale, weight.shape).astype(np.float32))
    model.compile(keras.optimizers.SGD(0.02, momentum=0.9), _LOSS, metrics=["accuracy"])
    return model


def stripes(count=960):
    """Noisy images of three kinds of stripes."""
    random = np.random.default_rng(1)
    kinds = random.integers(0, 3, count).astype(np.int32)
    waves = np.sin(np.arange(12)[None] * (kinds[:, None] + 1))
    images = waves[:, :, None] + random.normal(0, 2.0, (count, 12, 12))
    return sw.DataSet(images[..., None].astype(np.float32), kinds)


def averaging(**options):
    given = {"batch_size_per_worker": 16, "averaging_frequency": 5, "seed": 1, **options}
    return sw.ParameterAveragingTrainingMaster(**given)


def wrapper(model, master, devices):
    """A worker for each device: the address of a GPU, or "cpu"; processes stay until the end."""
    where, cores = "cpu" if devices[0] == "cpu" else devices, 1 if IS_FAKE else 4
    options = {"workers": len(devices), "cores_per_worker": cores}
    return _open.enter_context(sw.ParallelWrapper(model, master, devices=where, **options))


def train(model, master, data, devices, **options):
    """Train `model` in place; the run, after its end, of workers that computed on `devices`."""
    run = wrapper(model, master, devices).start(data, display=False, **options)
    run.wait(300.0)
    expected = "CPU" if devices[0] == "cpu" else f"GPU {devices[0]}"
    for worker in run.status.workers:
        is_there = worker.device.startswith(expected) and ("(fake)" in worker.device) <= IS_FAKE
        assert is_there, f"worker {worker.worker} computed on {worker.device}, not {expected}"
    return run


def losses_of(run):
    """The mean loss of each epoch, which must fall."""
    losses = run.history.groupby("epoch").loss.mean().tolist()
    assert losses[-1] < 0.9 * losses[0], f"the losses of epochs are {losses}"
    return losses
