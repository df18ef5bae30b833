import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.updates.reference import grid_thresholds, grid_vectors

import sparkwright as sw


def test_clipping_is_due_after_every_fifth_minibatch_but_not_the_first():
    assert [step for step in range(16) if sw.ResidualClipping().due(step)] == [5, 10, 15]
    assert [step for step in range(3) if sw.ResidualClipping(every=1).due(step)] == [1, 2]


@given(residual=grid_vectors(), threshold=grid_thresholds, multiple=st.integers(1, 8))
def test_excess_brings_the_residual_to_the_bound(residual, threshold, multiple):
    local = np.arange(residual.size, dtype=np.float32)
    shared = residual + local
    before = shared.copy()
    indices, values = sw.ResidualClipping(multiple=multiple).excess(shared, [local], threshold)
    local[indices] += values
    bound = multiple * threshold
    np.testing.assert_array_equal(shared - local, np.clip(residual, -bound, bound))
    assert (values != 0).all()
    np.testing.assert_array_equal(shared, before)


def test_each_variable_may_have_its_own_threshold():
    rng = np.random.default_rng(2)
    local = [rng.standard_normal(40_000), rng.standard_normal(30_000)]
    clipping = sw.ResidualClipping(multiple=2, every=1)
    indices, values = clipping.excess(np.zeros(70_000), local, [0.25, 0.5])
    assert (np.diff(indices) > 0).all()
    residual = -np.concatenate(local)
    bound = np.repeat([0.5, 1.0], [40_000, 30_000])
    residual[indices] -= values
    np.testing.assert_allclose(residual, np.clip(-np.concatenate(local), -bound, bound))


def test_vectors_and_thresholds_must_fit():
    with pytest.raises(sw.DataError, match="4 and 3 elements"):
        sw.ResidualClipping().excess(np.ones(3), [np.zeros(4)], 1.0)
    with pytest.raises(sw.ConfigurationError, match="1 thresholds, 2 variables"):
        sw.ResidualClipping().excess(np.ones(3), [np.zeros(1), np.zeros(2)], [1.0])
    with pytest.raises(sw.ConfigurationError, match="threshold="):
        sw.ResidualClipping().excess(np.ones(3), [np.zeros(3)], -1.0)
