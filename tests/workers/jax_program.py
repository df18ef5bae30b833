"""Trains the same networks on either backend of Keras; a script for JAX alone.

    KERAS_BACKEND=jax python jax_program.py FOLDER

Weights and losses are written to FOLDER/jax.npz, and facts are printed.
"""

import json
import sys
from pathlib import Path

import numpy as np

import sparkwright as sw

STEPS = 50
_BATCH = 8


def dense():
    """Batch normalization, an L2 penalty, a schedule, weighted metrics."""
    import keras

    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 10, 0.9)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(8, activation="tanh", kernel_regularizer="l2"),
            layers.BatchNormalization(),
            layers.Dense(3, activation="softmax"),
        ],
        name="dense",
    )
    loss = "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    return _with_own_weights(model)


def branches():
    """A convolution and a masked LSTM with two outputs, of which each has a loss; momentum."""
    import keras

    layers = keras.layers
    image, steps = keras.Input((6, 6, 1), name="image"), keras.Input((5, 3), name="steps")
    seen = layers.Flatten()(layers.Conv2D(3, 3, activation="relu")(image))
    read = layers.LSTM(4)(layers.Masking()(steps))
    joined = layers.concatenate([seen, read])
    kind = layers.Dense(2, activation="softmax", name="kind")(joined)
    size = layers.Dense(1, name="size")(joined)
    model = keras.Model([image, steps], {"kind": kind, "size": size}, name="branches")
    losses = {"kind": "sparse_categorical_crossentropy", "size": "mse"}
    model.compile(keras.optimizers.SGD(0.02, momentum=0.9, clipnorm=1.0), losses)
    return _with_own_weights(model)


def _with_own_weights(model):
    """The backends draw different random numbers."""
    random = np.random.default_rng(0)
    for weight in model.trainable_weights:
        if len(weight.shape) > 1:
            weight.assign(random.normal(0, 0.3, weight.shape).astype(np.float32))
    return model


def data_of(name, workers):
    """Examples of `STEPS` minibatches for each worker."""
    random = np.random.default_rng(1)
    count = STEPS * _BATCH * workers
    if name == "dense":
        labels = random.integers(0, 3, count).astype(np.int32)
        features = random.normal(size=(count, 4)) + labels[:, None]
        return sw.DataSet(features.astype(np.float32), labels, weights=random.random(count))
    lengths = random.integers(2, 6, count)
    steps = random.normal(size=(count, 5, 3)) * (np.arange(5) < lengths[:, None])[..., None]
    image = random.normal(size=(count, 6, 6, 1)).astype(np.float32)
    sizes = image.mean((1, 2, 3))[:, None]
    kinds = (lengths > 3).astype(np.int32)
    return sw.DataSet(
        {"image": image, "steps": steps.astype(np.float32)}, {"kind": kinds, "size": sizes}
    )


def averaging():
    return sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=_BATCH, averaging_frequency=4, seed=1
    )


def sharing(workers=1):
    """Of one worker: the order in which messages of several arrive is left to chance.

    So is how many minibatches a message holds, unless it is given.
    """
    return sw.SharedTrainingMaster(
        workers=workers, batch_size_per_worker=_BATCH, minibatches_per_message=1, seed=1
    )


def trained():
    """Name -> model and run, of each network and master."""
    found = {}
    for build, master in ((dense, averaging()), (branches, sharing())):
        workers = master.workers or 1
        data = data_of(build.__name__, workers)
        with sw.ParallelWrapper(build(), master, workers=workers, cores_per_worker=1) as wrapper:
            run = wrapper.start(data, validation=data.take(slice(0, 64)), display=False)
            run.wait(200)
        found[f"{build.__name__} {type(master).__name__}"] = wrapper.model, run
    return found


def results(found):
    """Flat arrays: weights, losses and validation losses by name."""
    arrays = {}
    for name, (model, run) in found.items():
        arrays[f"{name}: weights"] = np.concatenate([w.ravel() for w in model.get_weights()])
        arrays[f"{name}: losses"] = run.history.sort_values(["worker", "step"]).loss.to_numpy()
        arrays[f"{name}: validation"] = np.array([point.loss for point in run.status.validation])
    return arrays


def main(folder):
    """Train without TensorFlow and PySpark, save and load; print what came of it."""
    import keras

    with sw.ParallelWrapper(dense(), averaging(), workers=2):  # keeps trainers for all that follow
        found = trained()
        several = sharing(workers=2)
        with sw.ParallelWrapper(dense(), several, workers=2, cores_per_worker=1) as wrapper:
            run = wrapper.start(data_of("dense", 2), epochs=3, display=False)
            run.wait(200)
    np.savez(folder / "jax.npz", **results(found))
    model = found["branches SharedTrainingMaster"][0]
    url = str(folder / "model.keras")
    sw.save_model(model, url)
    loaded = sw.load_model(url)
    facts = {
        "backend": keras.backend.backend(),
        "missing": [name for name in ("tensorflow", "pyspark") if sys.modules.get(name) is None],
        "equal": all(map(np.array_equal, model.get_weights(), loaded.get_weights())),
        "versions": sorted(sw.model_info(url).versions),
        "two_sharing": run.history.groupby("epoch").loss.mean().tolist(),
        "step": sw.measure_step(dense(), 8, budget_s=0.1).device,
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    main(target)
