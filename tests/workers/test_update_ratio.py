import math

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparkwright.workers._flat import sample_of, update_ratio

vectors = npst.arrays(np.float32, st.integers(1, 300), elements=st.floats(-9, 9, width=32))


@given(before=vectors, factor=st.floats(-0.5, 0.5), minibatches=st.integers(1, 5))
def test_ratio_is_that_of_the_norms_per_minibatch(before, factor, minibatches):
    after = before + np.float32(factor) * before
    found = update_ratio(before, after, minibatches=minibatches)
    if np.linalg.norm(before) < 1e-3:
        return
    assert found == pytest.approx(abs(factor) / minibatches, abs=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_non_finite_values_give_a_nan_ratio(bad):
    before, zeros, nothing = np.array([1.0, 2.0], np.float32), np.zeros(3), sample_of([])
    assert math.isnan(update_ratio(nothing, nothing, minibatches=1))
    assert math.isnan(update_ratio(zeros, zeros + 1, minibatches=1))
    assert math.isnan(update_ratio(before, np.array([1.0, bad], np.float32), minibatches=1))
    assert math.isnan(update_ratio(np.array([1.0, bad], np.float32), before, minibatches=1))


@given(sizes=st.lists(st.integers(0, 40_000), max_size=6), most=st.integers(5_000, 90_000))
def test_samples_are_bounded_evenly_spread_copies(sizes, most):
    pieces = [np.full(size, place, np.float32) for place, size in enumerate(sizes)]
    sample = sample_of(pieces, most=most)
    if sum(sizes) <= most:
        np.testing.assert_array_equal(sample, np.concatenate([np.empty(0), *pieces]))
    assert len(sample) <= most + 2 * 4096 * len(sizes)
    assert set(sample) == {place for place, size in enumerate(sizes) if size}
    assert not any(np.shares_memory(sample, piece) for piece in pieces)


def test_sample_of_a_large_network_gives_the_same_ratio():
    random = np.random.default_rng(3)
    before = [random.normal(size=size).astype(np.float32) for size in (900_000, 40, 2_000_000)]
    after = [piece + 2e-3 * random.normal(size=piece.size).astype(np.float32) for piece in before]
    exact = update_ratio(np.concatenate(before), np.concatenate(after), minibatches=1)
    sampled = update_ratio(sample_of(before), sample_of(after), minibatches=1)
    assert len(sample_of(before)) < 600_000
    assert sampled == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("steps", [1, 4, 25])
def test_steps_in_unrelated_directions_count_by_the_square_root(steps):
    before = np.ones(100)
    after = before.copy()
    after[:steps] += 0.1  # each step changes another parameter
    one = update_ratio(before, before + 0.1 * np.eye(100)[0], minibatches=1)
    found = update_ratio(before, after, minibatches=steps)
    assert found == pytest.approx(one / math.sqrt(steps))
