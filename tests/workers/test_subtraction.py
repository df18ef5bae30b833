import numpy as np
import pytest

from sparkwright.networks import ModelState


@pytest.fixture(scope="module")
def variables():
    import keras

    shapes = [(2, 3, 1, 4), (4,), (), (5, 2), (1,)]
    return [keras.Variable(np.zeros(shape), dtype="float32") for shape in shapes]


def flat(variables):
    return np.concatenate([v.numpy().ravel() for v in variables])


def test_vector_indices_map_to_variable_elements(variables):
    from sparkwright.workers._flat import SparseSubtraction

    subtract = SparseSubtraction(variables)
    size = flat(variables).size
    random = np.random.default_rng(0)
    for count in (0, 1, 7, 3 * size):  # with repeats, which add up
        before = flat(variables)
        indices = random.integers(0, size, count)
        values = random.integers(-8, 8, count).astype(np.float32) / 4
        subtract(indices, values)
        expected = before.copy()
        np.subtract.at(expected, indices, values)
        np.testing.assert_array_equal(flat(variables), expected)


def test_whole_vector_is_subtracted_from_the_trainable_variables():
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    state = ModelState.of(model, training=False)
    before = state.read(updater=False)
    change = np.arange(before.size, dtype=np.float32)
    state.subtract(change)
    np.testing.assert_array_equal(state.read(updater=False), before - change)


def small_model():
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def test_windows_change_the_trainable_variables_in_place():
    state = ModelState.of(small_model())
    windows = state.trainable_windows()
    assert windows is not None
    before = state.read(updater=True)
    for window in windows:
        window -= 1
    del windows, window
    expected = before.copy()
    expected[: state.trainable_size] -= 1
    np.testing.assert_array_equal(state.read(updater=True), expected)


def test_no_windows_exist_for_memory_shared_by_two_variables():
    import tensorflow as tf

    model = small_model()
    state = ModelState.of(model)
    kernel, other = model.trainable_variables[0].value, model.optimizer.variables[2].value
    tf.raw_ops.AssignVariableOp(resource=other.handle, value=kernel.read_value())
    assert kernel.shape == other.shape
    assert state.trainable_windows() is None
    other.assign(2 * kernel)
    assert state.trainable_windows() is not None


def test_no_windows_exist_for_variables_changed_by_sparse_operations():
    model = small_model()
    state = ModelState.of(model)
    kernel = model.trainable_variables[0].value
    kernel.scatter_nd_sub([[0, 0]], [1.0])
    assert state.trainable_windows() is None
