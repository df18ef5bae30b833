"""What parts of the JAX back end do, as JSON by test; a script for JAX alone."""

import json
from unittest import mock

import keras
import numpy as np

import sparkwright as sw
from sparkwright.networks import ModelDefinition, ModelState, backend, state
from sparkwright.workers._batch_layout import BatchLayout
from sparkwright.workers._jax_replica import JaxReplica

layers = keras.layers


class Own(keras.Sequential):
    def train_step(self, state, data):
        return {}, state


def rejections():
    """Of a text input, a custom step, and another back end."""
    text = keras.Input((1,), dtype="string", name="text")
    own = Own([keras.Input((1,)), layers.Dense(1)])
    found = []
    for model, name in ((keras.Model(text, text), "jax"), (own, "jax"), (own, "torch")):
        try:
            with mock.patch.object(keras.backend, "backend", return_value=name):
                ModelDefinition.of(model)
        except sw.ConfigurationError as error:
            found.append(str(error))
    return found


def changed_states():
    """How often a state that was written followed the vector that it was written from."""
    model = keras.Sequential([keras.Input((512,)), *[layers.Dense(512) for _ in range(12)]])
    model.compile("sgd", "mse")
    held, wrong = ModelState.of(model), 0
    vector = np.empty(held.averaged_size, np.float32)
    for number in range(40):
        vector[:] = number
        held.write(vector)
        vector[:] = -1
        wrong += not (held.read(updater=False) == number).all()
    return wrong


def gpu_variables():
    """JAX' CPU stands in for the GPU: the copies are the same calls."""
    access = backend._JaxGpuVariables()
    log, concatenated = [], access.concatenated
    access.concatenated = lambda held: (log.append(len(held)), concatenated(held))[1]
    access.read = None
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2), layers.Dense(1)])
    model.compile("adam", "mse")
    with mock.patch.object(state, "variables", return_value=access):
        held = ModelState.of(model)
        number = len(held.averaged) + len(held.updater)
        size = held.averaged_size + held.updater_size
        held.write(np.arange(size, dtype=np.float32))
        log.clear()
        found = held.read(updater=True)
        order = [*log]
        held.subtract(np.ones(held.trainable_size, np.float32))
        less = held.read(updater=False)
        finite = held.is_finite(updater=True)
        wrong = found.copy()
        wrong[-1] = np.nan
        held.write(wrong)
        return {
            "copies": order == [number],
            "read": (found == np.arange(size)).all().item(),
            "less": (less == np.arange(held.averaged_size) - 1).all().item(),
            "finite": [finite, held.is_finite(updater=True), held.is_finite(updater=False)],
        }


def compiled_loop():
    """Training with several minibatches a call, which only GPUs do: a CPU is called one here."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(4, "relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(1),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"])
    random = np.random.default_rng(1)
    shapes = {"features/x": (39, 8, 3), "labels/y": (39, 8, 1)}
    columns = {name: random.normal(size=each).astype(np.float32) for name, each in shapes.items()}
    layout = BatchLayout(model, {name: a[0] for name, a in columns.items()}, training=True)
    definition, found = ModelDefinition.of(model), []
    on_gpu = type("OnGpu", (JaxReplica,), {"device": ("GPU", 1)})
    replicas = JaxReplica(definition), on_gpu(definition)
    replicas[1].state.write(replicas[0].state.read(updater=True))
    replicas[1].state.write_extras(replicas[0].state.read_extras())
    for replica in replicas:
        replica._step_s, results = 1e-9, []
        for steps in (39, 5, 5):
            block = {name: array[:steps] for name, array in columns.items()}
            losses, metrics = replica.train(layout, block)
            results += [losses, metrics["mae"], replica.learning_rate]
        found.append([replica.state.read(updater=True), *results])
    return {
        "counts": sorted({shape[-1] for shape in replicas[1]._shapes}),
        "difference": max(float(np.abs(a - b).max()) for a, b in zip(*found, strict=True)),
        "iterations": replicas[1].state.iterations,
    }


if __name__ == "__main__":
    checks = rejections, changed_states, gpu_variables, compiled_loop
    print(json.dumps({check.__name__: check() for check in checks}))
