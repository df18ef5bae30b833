"""Keras on JAX trains as Keras on TensorFlow does, where TensorFlow and PySpark are missing."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scripts import json_printed_by
from tests.support.in_process import InProcessPool
from tests.workers import jax_program

ROOT = Path(__file__).parents[2]
# See `.ci/setup`.
JAX = ROOT / ".venv" / "jax"
pytestmark = pytest.mark.skipif(not JAX.exists(), reason="`.ci/setup test` has not fetched JAX")
_WITHOUT = "import sys\nsys.modules.update(tensorflow=None, pyspark=None)\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """What the program prints on JAX, and arrays of both backends by name."""
    folder = tmp_path_factory.mktemp("jax")
    # Python imports it by itself, in trainers, too: they inherit the path.
    (folder / "sitecustomize.py").write_text(_WITHOUT)
    path = os.pathsep.join([str(folder), *filter(None, sys.path), str(ROOT), str(JAX)])
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": path}
    facts = json_printed_by(jax_program.__file__ or "", folder, environment=environment)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparkwright.local.TrainerPool", InProcessPool)
        expected = jax_program.results(jax_program.trained())
    return facts, np.load(folder / "jax.npz"), expected


def test_weights_and_losses_equal_tensorflow(found: Any) -> None:
    _, arrays, expected = found
    assert len(expected) == 9
    assert set(arrays) == set(expected)
    for name, array in expected.items():
        assert len(array) >= (1 if "validation" in name else jax_program.STEPS)
        # The same sums in another order: single precision has 24 bits.
        np.testing.assert_allclose(arrays[name], array, atol=1e-5, err_msg=name)


def test_tensorflow_and_pyspark_are_not_required(found: Any) -> None:
    facts = found[0]
    assert facts["backend"] == "jax"
    assert facts["missing"] == ["tensorflow", "pyspark"]
    assert facts["equal"]  # a saved model is loaded as it was
    assert facts["versions"] == ["jax", "keras", "numpy", "python", "sparkwright"]
    assert facts["step"] == "CPU"


def test_two_workers_share_updates(found: Any) -> None:
    first, *_, last = found[0]["two_sharing"]
    assert last < 0.9 * first


@pytest.mark.thorough
def test_other_backends_custom_steps_and_text_inputs_are_rejected() -> None:
    program = """
import os, keras, sparkwright as sw
from sparkwright.networks import ModelDefinition

class Own(keras.Sequential):
    def train_step(self, state, data):
        return {}, state

text = keras.Input((1,), dtype="string", name="text")
own = Own([keras.Input((1,)), keras.layers.Dense(1)])
for model in (keras.Model(text, text), own, own):
    try:
        ModelDefinition.of(model)
    except sw.ConfigurationError as error:
        print(error)
    if model is own:
        keras.backend.backend = lambda: "torch"
"""
    path = os.pathsep.join([*filter(None, sys.path), str(ROOT), str(JAX)])
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    text, own, torch = done.stdout.splitlines()
    assert "Received: ['text']" in text
    assert "`train_step`" in own
    assert "Received: backend='torch'" in torch


@pytest.mark.thorough
def test_written_state_is_unaffected_by_later_vector_changes() -> None:
    """JAX copies some arrays later than it returns, and of others takes over the memory."""
    program = """
import json, keras, numpy as np
from sparkwright.networks.state import ModelState

model = keras.Sequential([keras.Input((512,)), *[keras.layers.Dense(512) for _ in range(12)]])
model.compile("sgd", "mse")
held, wrong = ModelState.of(model), 0
vector = np.empty(held.averaged_size, np.float32)
for number in range(40):
    vector[:] = number
    held.write(vector)
    vector[:] = -1
    wrong += not (held.read(updater=False) == number).all()
print(json.dumps(wrong))
"""
    path = os.pathsep.join([*filter(None, sys.path), str(ROOT), str(JAX)])
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": path}
    assert json_printed_by("-c", program, environment=environment) == 0


@pytest.mark.thorough
def test_gpu_variables_are_updated_like_cpu_variables() -> None:
    """JAX' CPU stands in for the GPU: the copies are the same calls."""
    program = """
import json, keras, numpy as np
from sparkwright.networks import backend, state

access = backend._JaxGpuVariables()
state.variables = lambda: access
log, concatenated = [], access.concatenated
access.concatenated = lambda held: (log.append(len(held)), concatenated(held))[1]
access.read = None
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(1)])
model.compile("adam", "mse")
held = state.ModelState.of(model)
number = len(held.averaged) + len(held.updater)
size = held.averaged_size + held.updater_size
vector = np.arange(size, dtype=np.float32)
held.write(vector)
log.clear()
found = held.read(updater=True)
order = [*log]
held.subtract(np.ones(held.trainable_size, np.float32))
less = held.read(updater=False)
finite = held.is_finite(updater=True)
wrong = found.copy()
wrong[-1] = np.nan
held.write(wrong)
print(json.dumps({
    "copies": order == [number],
    "read": (found == np.arange(size)).all().item(),
    "less": (less == np.arange(held.averaged_size) - 1).all().item(),
    "finite": [finite, held.is_finite(updater=True), held.is_finite(updater=False)],
}))
"""
    path = os.pathsep.join([*filter(None, sys.path), str(ROOT), str(JAX)])
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": path}
    found = json_printed_by("-c", program, environment=environment)
    expected = {"copies": True, "read": True, "less": True, "finite": [True, False, True]}
    assert found == expected


@pytest.mark.thorough
def test_minibatches_in_one_compiled_loop_train_like_single_steps() -> None:
    """Which only GPUs do, so a CPU is called one here."""
    program = """
import json, keras, numpy as np
from sparkwright.networks import ModelDefinition
from sparkwright.workers._batch_layout import BatchLayout
from sparkwright.workers._jax_replica import JaxReplica

keras.utils.set_random_seed(1)
layers = keras.layers
model = keras.Sequential([keras.Input((3,)), layers.Dense(4, "relu"), layers.BatchNormalization()])
model.add(layers.Dropout(0.5))
model.add(layers.Dense(1))
model.compile("adam", "mse", metrics=["mae"])
random = np.random.default_rng(1)
shapes = {"features/x": (39, 8, 3), "labels/y": (39, 8, 1)}
columns = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
layout = BatchLayout(model, {name: a[0] for name, a in columns.items()}, training=True)
definition, found = ModelDefinition.of(model), []
on_gpu = type("OnGpu", (JaxReplica,), {"device": ("GPU", 1)})
replicas = JaxReplica(definition), on_gpu(definition)
replicas[1].write(replicas[0].state.read(updater=True))
replicas[1].state.write_extras(replicas[0].state.read_extras())
for replica in replicas:
    replica._step_s, results = 1e-9, []
    for steps in (39, 39, 5, 5):
        block = {name: array[:steps] for name, array in columns.items()}
        losses, metrics = replica.train(layout, block)
        results += [losses, metrics["mae"], replica.learning_rate]
    found.append([replica.state.read(updater=True), *results])
print(json.dumps({
    "counts": sorted({shape[-1] for shape in replica._shapes}),
    "difference": max(float(np.abs(a - b).max()) for a, b in zip(*found, strict=True)),
    "iterations": replica.iterations,
}))
"""
    path = os.pathsep.join([*filter(None, sys.path), str(ROOT), str(JAX)])
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": path}
    found = json_printed_by("-c", program, environment=environment)
    assert found["difference"] < 1e-5
    assert found["counts"] == [1, 4, 5, 32]
    assert found["iterations"] == 88
