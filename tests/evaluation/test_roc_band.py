import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation import ROC, bootstrap_band


def scored(rows, *, seed=0, gap=1.0):
    random = np.random.default_rng(seed)
    labels = np.arange(rows) % 3 == 0
    return ROC.from_predictions(labels.astype(int), random.normal(size=rows) + gap * labels)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=40))
@settings(max_examples=25)
def test_bounds_are_in_order_and_within_0_and_1(rows):
    labels = [int(label) for label, _ in rows]
    roc = ROC.from_predictions(labels, [score / 5 for _, score in rows])
    if len(set(labels)) < 2:
        with pytest.raises(DataError, match="both classes"):
            bootstrap_band(roc)
        return
    band = bootstrap_band(roc, replicates=20)
    for low, high in (band.true_positive_rate, band.precision, band.auc, band.average_precision):
        assert np.all(np.asarray(low) >= 0)
        assert np.all(np.asarray(low) <= np.asarray(high))
        assert np.all(np.asarray(high) <= 1 + 1e-12)


def test_the_curve_lies_within_its_band_and_so_do_the_areas():
    roc = scored(900)
    band = bootstrap_band(roc)
    curve = roc.curve()
    height = np.interp(band.grid, curve.false_positive_rate, curve.true_positive_rate)
    low, high = band.true_positive_rate
    assert np.mean((low - 1e-9 <= height) & (height <= high + 1e-9)) > 0.97
    assert band.auc[0] < roc.auc < band.auc[1]
    assert band.average_precision[0] < roc.average_precision < band.average_precision[1]


def test_interval_width_matches_theory():
    """Hanley and McNeil's standard error of the area, of normal scores."""
    roc = scored(600)
    q1, q2 = roc.auc / (2 - roc.auc), 2 * roc.auc**2 / (1 + roc.auc)
    spread = roc.auc * (1 - roc.auc) + 199 * (q1 - roc.auc**2) + 399 * (q2 - roc.auc**2)
    expected = 2 * 1.96 * np.sqrt(spread / (200 * 400))
    low, high = bootstrap_band(roc, replicates=800).auc
    assert high - low == pytest.approx(expected, rel=0.15)
    half = bootstrap_band(roc, replicates=800, confidence=0.5).auc
    assert half[1] - half[0] == pytest.approx(expected * 0.674 / 1.96, rel=0.15)


def test_band_is_deterministic_and_supports_thresholded_rocs():
    labels = np.arange(300) % 2
    scores = np.clip(0.3 + 0.4 * labels + 0.2 * np.sin(np.arange(300)), 0, 1)
    exact = ROC.from_predictions(labels, scores)
    coarse = ROC.from_predictions(labels, scores, thresholds=50)
    assert bootstrap_band(exact, seed=3).auc == bootstrap_band(exact, seed=3).auc
    assert bootstrap_band(exact, seed=3).auc != bootstrap_band(exact, seed=4).auc
    assert bootstrap_band(coarse).auc == pytest.approx(bootstrap_band(exact).auc, abs=0.01)


def test_options_that_cannot_be_are_rejected():
    options = [{"confidence": 1.0}, {"replicates": 1}, {"grid_points": 1}]
    for each in options:
        with pytest.raises(ConfigurationError, match="must be"):
            bootstrap_band(scored(30), **each)
