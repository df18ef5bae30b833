import numpy as np
import pytest

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.updates import encode_difference, residual_statistics


def vectors(size):
    rng = np.random.default_rng(11)
    local = rng.standard_normal(size, dtype=np.float32)
    return rng.standard_normal(size, dtype=np.float32), np.split(local, [size // 3, size // 2])


@pytest.mark.parametrize("size", [3, 1000, 70_001])
def test_figures_are_those_of_the_residual(size):
    shared, local = vectors(size)
    magnitude = np.abs(shared - np.concatenate(local))
    found = residual_statistics(shared, local, 0.5)
    assert (found.length, found.threshold, found.sampled) == (size, 0.5, size)
    assert found.count == np.count_nonzero(magnitude >= 0.5)
    assert found.sparsity == found.count / size
    assert found.mean == pytest.approx(magnitude.mean(dtype=np.float64), rel=1e-6)
    assert found.maximum == magnitude.max()
    expected = np.percentile(magnitude, [50, 95, 99, 99.9, 99.99])
    np.testing.assert_allclose(found.percentiles, expected, rtol=1e-6)
    assert found.count == encode_difference(shared, local, 0.5).selected


def test_percentiles_of_a_long_vector_are_sampled_by_default():
    shared, local = vectors(250_000)
    magnitude = np.abs(shared - np.concatenate(local))
    found = residual_statistics(shared, local, 0.5)
    assert found.sampled == 83_334
    np.testing.assert_allclose(
        found.percentiles, np.percentile(magnitude[::3], [50, 95, 99, 99.9, 99.99]), rtol=1e-6
    )
    exact = residual_statistics(shared, local, 0.5, exact=True)
    assert exact.sampled == 250_000
    assert exact.count == found.count == np.count_nonzero(magnitude >= 0.5)
    assert exact.percentiles[0] == pytest.approx(np.median(magnitude), rel=1e-6)


def test_line_names_every_figure_and_percentiles_in_thresholds():
    shared = np.arange(101, dtype=np.float64)
    line = residual_statistics(shared, [np.zeros(101)], 10.0).line()
    assert line == (
        "residual: length 101, threshold t 10, count |r| >= t 91, sparsity 0.901, mean |r| 50, "
        "max |r| 100, percentiles: 50 %: 50 (5 t), 95 %: 95 (9.5 t), 99 %: 99 (9.9 t), "
        "99.9 %: 99.9 (9.99 t), 99.99 %: 99.99 (9.999 t)"
    )
    sampled = residual_statistics(np.zeros(100_001), [np.zeros(100_001)], 1.0).line()
    assert "percentiles of 50,001 elements: " in sampled


def test_nan_and_infinity_show_and_arguments_are_checked():
    shared = np.array([np.nan, np.inf, 1.0])
    found = residual_statistics(shared, [np.zeros(3)], 0.5)
    assert found.count == 2
    assert np.isnan(found.mean)
    assert np.isnan(found.maximum)
    assert "nan" in found.line()
    assert residual_statistics(np.zeros(0), [], 1.0).line().startswith("residual: length 0")
    with pytest.raises(DataError, match="1 and 2 elements"):
        residual_statistics(np.zeros(2), [np.zeros(1)], 1.0)
    with pytest.raises(ConfigurationError, match="threshold="):
        residual_statistics(np.zeros(2), [np.zeros(2)], 0.0)
