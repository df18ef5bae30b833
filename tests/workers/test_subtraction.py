"""Subtracting from variables what lies at places of their flat vector."""

from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def variables() -> list[Any]:
    import keras

    shapes = [(2, 3, 1, 4), (4,), (), (5, 2), (1,)]
    return [keras.Variable(np.zeros(shape), dtype="float32") for shape in shapes]


def flat(variables: list[Any]) -> Any:
    return np.concatenate([v.numpy().ravel() for v in variables])


def test_places_of_the_vector_are_places_of_the_variables(variables: list[Any]) -> None:
    from sparkwright.workers._flat import SparseSubtraction, subtract_from

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
        subtract_from(variables, expected)
        np.testing.assert_array_equal(flat(variables), 0)
