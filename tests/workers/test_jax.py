import os
import sys
from pathlib import Path

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
def found(tmp_path_factory):
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


def test_weights_and_losses_equal_tensorflow(found):
    _, arrays, expected = found
    assert len(expected) == 6
    assert set(arrays) == set(expected)
    for name, array in expected.items():
        assert len(array) >= (1 if "validation" in name else jax_program.STEPS)
        # The same sums in another order: single precision has 24 bits.
        np.testing.assert_allclose(arrays[name], array, atol=1e-5, err_msg=name)


def test_tensorflow_and_pyspark_are_not_required(found):
    facts = found[0]
    assert facts["backend"] == "jax"
    assert facts["missing"] == ["tensorflow", "pyspark"]
    assert facts["equal"]  # a saved model is loaded as it was
    assert facts["versions"] == ["jax", "keras", "numpy", "python", "sparkwright"]
    assert facts["step"] == "CPU"


def test_two_workers_share_updates(found):
    first, *_, last = found[0]["two_sharing"]
    assert last < 0.9 * first


@pytest.fixture(scope="module")
def checks():
    """What the script of checks prints: starting JAX takes longer than each of them."""
    path = os.pathsep.join([*filter(None, sys.path), str(ROOT), str(JAX)])
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": path}
    return json_printed_by(Path(__file__).with_name("jax_checks.py"), environment=environment)


@pytest.mark.thorough
def test_other_backends_custom_steps_and_text_inputs_are_rejected(checks):
    text, own, torch = checks["rejections"]
    assert "Received: ['text']" in text
    assert "`train_step`" in own
    assert "Received: backend='torch'" in torch


@pytest.mark.thorough
def test_written_state_is_unaffected_by_later_vector_changes(checks):
    """JAX copies some arrays later than it returns, and of others takes over the memory."""
    assert checks["changed_states"] == 0


@pytest.mark.thorough
def test_gpu_variables_are_updated_like_cpu_variables(checks):
    expected = {"copies": True, "read": True, "less": True, "finite": [True, False, True]}
    assert checks["gpu_variables"] == expected


@pytest.mark.thorough
def test_minibatches_in_one_compiled_loop_train_like_single_steps(checks):
    found = checks["compiled_loop"]
    assert found["difference"] < 1e-5
    assert found["counts"] == [1, 4, 5, 32]
    assert found["iterations"] == 49
