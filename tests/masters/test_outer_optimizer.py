import keras
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from sparkwright.masters import OuterOptimizer

numbers = arrays(np.float64, (5, 3), elements=st.floats(-10, 10, width=32))


def trajectory(outer, means):
    """The parameters after each averaging, from 0, whose change is what the workers did."""
    x, velocity = np.zeros(means.shape[1]), np.zeros(means.shape[1])
    found = []
    for change in means:
        mean, new = x + change, np.empty_like(velocity)
        outer.step(x, mean, velocity, new)
        x, velocity = mean, new
        found.append(x)
    return np.array(found)


@pytest.mark.thorough
@given(
    numbers,
    st.builds(
        OuterOptimizer,
        momentum=st.floats(0, 0.99),
        learning_rate=st.floats(0.01, 2),
        nesterov=st.booleans(),
    ),
)
def test_a_step_is_that_of_sgd_on_the_change(changes, outer):
    sgd = keras.optimizers.SGD(
        outer.learning_rate, momentum=outer.momentum, nesterov=outer.nesterov
    )
    variable = keras.Variable(np.zeros(3), dtype="float64")
    expected = []
    for change in changes:
        sgd.apply([-change], [variable])
        expected.append(variable.numpy())
    np.testing.assert_allclose(trajectory(outer, changes), expected, rtol=1e-4, atol=1e-3)


def test_the_cut_into_pieces_does_not_show():
    random = np.random.default_rng(0)
    before, mean, velocity = random.normal(size=(3, 200_001)).astype(np.float32)
    outer, whole, new = OuterOptimizer(), mean.copy(), np.empty_like(velocity)
    outer.step(before, whole, velocity, new)
    for place in (slice(0, 7), slice(65_530, 65_540), slice(200_000, None)):
        part, part_new = mean[place].copy(), new[place].copy()
        outer.step(before[place], part, velocity[place], part_new)
        np.testing.assert_array_equal(part, whole[place])
        np.testing.assert_array_equal(part_new, new[place])
