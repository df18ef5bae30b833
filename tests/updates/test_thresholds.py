import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.cases import cases
from tests.updates.reference import encode

import sparkwright as sw
from sparkwright.updates import ThresholdAlgorithm, ThresholdState, choose_threshold

DECAY = 0.965936  # half in twenty steps


@cases(
    "algorithm, threshold",
    (sw.FixedThreshold(), 1e-3),
    (sw.TargetSparsity(initial=1e-3), 1e-3),
    (sw.AdaptiveThreshold(initial=0.25), 0.25),
)
def test_first_threshold_is_the_configured_one(algorithm, threshold):
    assert algorithm.init() == ThresholdState(threshold, None)
    assert isinstance(algorithm, ThresholdAlgorithm)


@cases(
    "algorithm, sparsity, factor",
    (sw.AdaptiveThreshold(), 0.9e-4, DECAY),
    (sw.AdaptiveThreshold(), 1e-4, 1),
    (sw.AdaptiveThreshold(), 5e-3, 1),
    (sw.AdaptiveThreshold(), 1e-2, 1),
    (sw.AdaptiveThreshold(), 1.1e-2, 1 / DECAY),
    (sw.AdaptiveThreshold(), 0.0, DECAY),
    (sw.AdaptiveThreshold(), 1 / 16, 1 / DECAY),
    (sw.AdaptiveThreshold(decay=0.5), 1 / 16, 2),
    (sw.TargetSparsity(), 0.9e-3, DECAY),
    (sw.TargetSparsity(), 1e-3, 1),
    (sw.TargetSparsity(), 1.1e-3, 1 / DECAY),
    (sw.TargetSparsity(target=0.02, decay=0.75), 0.01, 0.75),
    (sw.FixedThreshold(threshold=1e-4), 0.5, 1),
    (sw.AdaptiveThreshold(min_sparsity=0.01, max_sparsity=0.01, decay=0.5), 0.01, 1),
)
def test_one_step_follows_the_formula(algorithm, sparsity, factor):
    state = algorithm.update(algorithm.init(), sparsity=sparsity)
    assert state.threshold == pytest.approx(1e-4 * factor, rel=1e-6)
    assert state.sparsity == sparsity


@cases("algorithm", sw.AdaptiveThreshold(), sw.TargetSparsity())
def test_the_first_four_thresholds_are_chosen_unless_one_is_given(algorithm):
    state = algorithm.init()
    for left in (4, 3, 2, 1, 0, 0):
        assert state.to_choose == left
        state = algorithm.update(state, sparsity=1e-3)


magnitudes = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40, unique=True)


@given(magnitudes, st.floats(0.05, 1))
def test_the_chosen_threshold_leaves_the_least_that_a_message_may(values, share):
    found = np.array(values, np.float64)
    chosen = choose_threshold(found, share=share)

    def left(threshold):
        return float(np.sum((found - threshold * (found >= threshold)) ** 2))

    most = max(1, int(np.ceil(share * found.size)))
    allowed = np.sort(found)[::-1][:most]
    assert chosen in found
    assert left(chosen) <= min(map(left, allowed)) * (1 + 1e-9)


@cases("values", [], [0.0, 0.0], [np.nan, np.inf])
def test_nothing_is_chosen_from_nothing(values):
    assert choose_threshold(np.array(values), share=1) is None


def test_thresholds_settle_at_the_wanted_sparsity():
    algorithm = sw.TargetSparsity(initial=1e-4, target=0.01)
    rng, state = np.random.default_rng(1), algorithm.init()
    residual, ratios = np.zeros(20_000, np.float32), []
    for _ in range(400):
        residual += 0.01 * rng.standard_normal(residual.size, dtype=np.float32)
        sparsity = encode(residual, state.threshold).segments[0].sparsity
        state = algorithm.update(state, sparsity=sparsity)
        ratios.append(sparsity)
    assert np.mean(ratios[-100:]) == pytest.approx(0.01, rel=0.5)


@cases("sparsity", 0.0, 1.0)
def test_a_threshold_stays_one_that_can_be_encoded(sparsity):
    algorithm = sw.AdaptiveThreshold(decay=0.5)
    state = algorithm.init()
    for _ in range(300):
        state = algorithm.update(state, sparsity=sparsity)
    assert encode(np.zeros(20, np.float32), state.threshold).selected == 0
    moved = algorithm.update(state, sparsity=1.0 - sparsity)
    assert moved.threshold == state.threshold * 2 ** (1 - 2 * sparsity)


@cases("sparsity", -0.1, float("nan"), float("inf"))
def test_sparsities_that_cannot_be_are_rejected(sparsity):
    for algorithm in (sw.FixedThreshold(), sw.AdaptiveThreshold(), sw.TargetSparsity()):
        with pytest.raises(sw.ConfigurationError, match="sparsity="):
            algorithm.update(algorithm.init(), sparsity=sparsity)
